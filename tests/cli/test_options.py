"""One word for one thing on the command line: what all verbs' options are called, read out of the verbs themselves."""

from collections import defaultdict
from pathlib import Path

import pytest

from axbridge.cli.app import MISUSE
from axbridge.cli.options import SHARED
from tests.cli.test_help import verbs

OF_THE_FILE = {"--out"}  # its metavar says what kind of file it is


USES = defaultdict(dict)  # by its first word and by verb: `--html` is another word for the `--out` of compare
for verb, command in verbs():
    for option in command.params:
        if (word := option.opts[0]).startswith("--") and word != "--help":
            USES[word][verb] = option
SEVERAL = sorted(word for word, uses in USES.items() if len(uses) > 1)


def first_sentence(option):
    return (option.help or "").replace("\n", " ").partition(". ")[0].rstrip(".")


@pytest.mark.parametrize("word", SEVERAL)
def test_a_word_of_several_verbs_is_declared_once_and_means_one_thing(word):
    declared = [one for one in SHARED if one.partition("/")[0] == word]
    assert declared, f"{word} is an option of {', '.join(USES[word])}: declare it in cli/options.py"
    assert {first_sentence(option) for option in USES[word].values()} == {SHARED[declared[0]][0].rstrip(".")}
    metavars = {option.metavar for option in USES[word].values()}
    longest = max((one or "" for one in metavars), key=len)
    assert word in OF_THE_FILE or all((one or "") in longest for one in metavars), metavars


def test_every_shared_word_is_used_by_several_verbs():
    assert {word.partition("/")[0] for word in SHARED} - set(SEVERAL) == set()


@pytest.mark.parametrize("written", ["--out", "--record", "--html"])
def test_who_writes_a_file_asks_before_it_replaces_one(written):
    assert [verb for verb in USES[written] if verb not in USES["--force"]] == []


def test_who_simulates_lets_the_engine_be_chosen():
    simulating = {"demo", "serve", "view", "verify", "sweep", "compare"}
    simulating |= set(USES["--backend"]) | set(USES["--model"]) - {"identify"}  # that plays the rig's equations
    assert simulating == set(USES["--engine"])


@pytest.fixture
def folder(tmp_path, monkeypatch, said):
    """A folder with a recording, and files that nobody should lose."""
    monkeypatch.chdir(tmp_path)
    said("record", "step", "--rig", "bench_arm", "--angle", "5", "--duration", "0.1", "--out", "step.mcap")
    for name in ("mine.toml", "mine.html", "mine.png", "demo/report.html", "walk/report.png"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("kept")
    return tmp_path


IDENTIFY = ("identify", "step.mcap", "--rig", "bench_arm", "--model", "ax12")


@pytest.mark.parametrize(
    ("command", "there"),
    [
        (("compare", "step.mcap", "--out", "mine.html"), "mine.html"),
        (("compare", "step.mcap", "--html", "mine.png"), "mine.png"),
        ((*IDENTIFY, "--out", "mine.toml"), "mine.toml"),
        ((*IDENTIFY, "--out", "new.toml", "--html", "mine.html"), "mine.html"),
        (("demo", "--out", "demo"), "demo/report.html"),
        (("demo", "--rig", "bioloid", "--out", "walk"), "walk/report.png"),
    ],
)
@pytest.mark.slow
def test_a_file_that_is_there_is_refused_before_any_work_begins(command, there, folder, said):
    before = sorted(folder.rglob("*"))
    refused = said(*command, code=MISUSE)
    assert refused.startswith("axbridge: ")
    assert f"{there} is already there" in refused
    assert "--force" in refused
    assert Path(there).read_text() == "kept"
    assert sorted(folder.rglob("*")) == before


def test_a_file_that_is_there_is_replaced_where_that_is_asked_for(folder, said):
    said("compare", "step.mcap", "--out", "mine.html", "--force")
    assert "<html" in Path("mine.html").read_text()
