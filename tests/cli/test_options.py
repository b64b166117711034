"""Options have one name and one meaning across all verbs, checked on the verbs' declarations."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

import axbridge
from axbridge.cli.options import SHARED
from axbridge.config.model import to_toml
from axbridge.config.rig import Rig
from axbridge.motion.moves import Key, Move, Page
from axbridge.recording.stored import open_recording
from axbridge.robot.open import attending
from tests.cli.test_help import verbs

USES = defaultdict(dict)  # by its first word and by verb: `--html` is another word for the `--out` of compare
for verb, command in verbs():
    for option in command.params:
        if (word := option.opts[0]).startswith("--") and word != "--help":
            USES[word][verb] = option
SEVERAL = sorted(word for word, uses in USES.items() if len(uses) > 1)


@pytest.mark.parametrize("word", SEVERAL)
def test_a_word_of_several_verbs_is_declared_once_and_means_one_thing(word):
    declared = [option for option in SHARED if option.partition("/")[0] == word]
    assert declared, f"{word} is an option of {', '.join(USES[word])}: declare it in cli/options.py"
    first_sentences = {option.help.partition(". ")[0].rstrip(".") for option in USES[word].values()}
    assert first_sentences == {SHARED[declared[0]][0].rstrip(".")}
    metavars = {option.metavar for option in USES[word].values()}
    longest = max((metavar or "" for metavar in metavars), key=len)
    assert word == "--out" or all((metavar or "") in longest for metavar in metavars), metavars


def test_every_shared_word_is_used_by_several_verbs():
    assert {word.partition("/")[0] for word in SHARED} - set(SEVERAL) == set()


@pytest.mark.parametrize("written", ["--out", "--record", "--html"])
def test_every_verb_that_writes_a_file_has_force(written):
    assert [verb for verb in USES[written] if verb not in USES["--force"]] == []


def test_every_verb_that_simulates_has_engine():
    simulating = {"demo", "serve", "view", "verify", "sweep", "compare"}
    simulating |= set(USES["--backend"]) | set(USES["--model"]) - {"identify"}  # identify has its own simulation
    assert simulating == set(USES["--engine"])


def test_the_json_output_of_a_verb_begins_with_its_format_and_the_page_has_every_format(said):
    document = json.loads(said("move", "info", "sample:bow", "--json"))
    assert next(iter(document.items())) == ("format", "axbridge-move-info-1")
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    shown = {"profile from-model": "profile"}
    forms = {shown.get(verb, verb).replace(" ", "-") for verb in USES["--json"]} - {"serve", "bridge"} | {"demo-walk"}
    assert {form for form in forms if f"`axbridge-{form}-1`" not in page} == set()


SCRIPT = """
import sys
import axbridge
with axbridge.open("bench_arm") as robot:
    robot.step()
    print(robot.rig.specs[robot.rig.servos[0].name].model.name, *sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "record step --rig bench_arm --angle 10 --duration 0.2 --out it.mcap --model ax12",
        "play raise.json --rig bioloid --record it.mcap --model lima2009",
        pytest.param("walk bioloid --steps 1 --period 0.8 --record it.mcap --model lima2009", marks=pytest.mark.ci),
    ],
)
def test_the_servos_of_the_simulation_have_the_given_model(command, said):
    arm = Page(keys=(Key(positions={"left_shoulder_swing": 0.2}, time=0.1),))
    Move(pages={"1": arm}).save("raise.json")
    said(*command.split())
    models = {facts["name"] for facts in open_recording("it.mcap").metadata["models"].values()}
    assert models == {command.split()[-1]}


@pytest.mark.slow
def test_view_simulates_with_the_model_of_the_environment_and_needs_it_for_no_recording(monkeypatch, said):
    monkeypatch.setenv("AXBRIDGE_MODEL", "ax12")
    said("record", "step", "bench_arm", "--angle", 5, "--duration", 0.1)
    robots = []
    with attending(lambda robot, _: robots.append(robot)):
        for shown in ("bench_arm", "step.mcap"):
            said("view", shown, "--no-open", "--page-port", 0, "--duration", 0.1)
    assert [robot.rig.servos[0].model for robot in robots] == ["ax12"]


@pytest.mark.slow
def test_a_script_that_opens_its_robot_by_name_gets_the_given_model(tmp_path, monkeypatch, said):
    monkeypatch.setenv("AXBRIDGE_MODEL", "")  # restored after the test
    rig = Rig.load("bench_arm")
    mine = rig.specs[rig.servos[0].name].model.model_copy(update={"name": "mine"})
    (tmp_path / "mine.toml").write_text(to_toml(mine))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "it.py").write_text(SCRIPT)
    written = said("run", "scripts/it.py", "--model", "mine.toml", "--", "koch")  # koch is an argument of the script
    assert written == "mine koch\nnote: bench_arm: simulated (bullet)\n"


@pytest.mark.slow
def test_open_has_the_model_as_an_argument(monkeypatch):
    with axbridge.open("bioloid", model="lima2009") as robot:
        assert {robot.rig.specs[servo.name].model.name for servo in robot.rig.servos} == {"lima2009"}
    monkeypatch.setenv("AXBRIDGE_MODEL", "ax12")  # the default of a shell for robots opened by name
    for rig, model in (("bench_arm", "ax12"), (Rig.load("bench_arm"), "lima2009")):
        with axbridge.open(rig) as robot:
            assert robot.rig.servos[0].model == model
