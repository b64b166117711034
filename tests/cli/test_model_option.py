"""`--model` of the verbs that simulate: another servo model in the whole robot, one word away."""

import pytest

import axbridge
from axbridge.cli import app
from axbridge.config.model import to_toml
from axbridge.config.rig import Rig
from axbridge.motion.moves import Key, Move, Page
from axbridge.recording.stored import open_recording

pytestmark = pytest.mark.slow

SCRIPT = """
import axbridge
with axbridge.open("bench_arm") as robot:
    robot.step()
    print(robot.rig.model_of(robot.rig.servos[0]).name)
"""


@pytest.mark.parametrize(
    "command",
    [
        "record step --rig bench_arm --angle 10 --duration 0.2 --out it.mcap --model ax12",
        "play raise.json --rig bioloid --record it.mcap --model lima2009",
        pytest.param(
            "walk --rig bioloid --steps 1 --period 0.8 --record it.mcap --model lima2009", marks=pytest.mark.ci
        ),
    ],
)
def test_the_servos_of_the_simulation_have_it(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arm = Page(keys=(Key(positions={"left_shoulder_swing": 0.2}, time=0.1),))
    Move(pages={"1": arm}).save(tmp_path / "raise.json")
    assert app.run(command.split()) == app.DONE
    models = {facts["name"] for facts in open_recording("it.mcap").metadata["models"].values()}
    assert models == {command.split()[-1]}


def test_a_script_that_opens_its_robot_by_name_gets_it_and_a_file_is_found_from_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AXBRIDGE_MODEL", "")  # put back afterwards
    rig = Rig.load("bench_arm")
    mine = rig.model_of(rig.servos[0]).model_copy(update={"name": "mine"})
    (tmp_path / "mine.toml").write_text(to_toml(mine))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "it.py").write_text(SCRIPT)
    command = ["run", "scripts/it.py", "--rig", "bench_arm", "--model", "mine.toml"]
    assert app.run(command) == app.DONE
    assert capsys.readouterr().out == "mine\n"


@pytest.mark.parametrize("verb", ["play", "walk", "record", "run", "view", "serve", "compare"])
def test_a_model_that_nobody_knows_is_named_with_those_that_are_known(verb, tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it.py").write_text("")
    Move(pages={"1": Page(keys=(Key(positions={"left_knee": 1.0}, time=0.1),))}).save(tmp_path / "it.json")
    if verb == "compare":
        said("record", "step", "bench_arm", "--angle", "5", "--duration", "0.1")
    command = {
        "play": "play it.json", "record": "record step --out it.mcap", "run": "run it.py", "walk": "walk",
        "view": "view --no-open", "serve": "serve bench_arm", "compare": "compare step.mcap",
    }[verb].split()  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    rig = [] if verb == "serve" else ["--rig", "bench_arm" if verb in {"record", "compare"} else "bioloid"]
    refused = said(*command, *rig, "--model", "lima2008", code=app.MISUSE)
    assert "lima2008" in refused
    assert "known names: ax12, ax18, lima2009" in refused
    assert sorted(tmp_path.rglob("*")) == before


def test_in_python_it_is_a_word_of_open(monkeypatch):
    with axbridge.open("bioloid", model="lima2009") as robot:
        assert {robot.rig.model_of(servo).name for servo in robot.rig.servos} == {"lima2009"}
    monkeypatch.setenv("AXBRIDGE_MODEL", "ax12")  # what is chosen for a shell, where a robot is opened by name
    for rig, model in (("bench_arm", "ax12"), (Rig.load("bench_arm"), "lima2009")):
        with axbridge.open(rig) as robot:
            assert robot.rig.servos[0].model == model
