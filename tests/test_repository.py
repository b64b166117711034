"""Files of the repository that no other test reads: they are right, and what they name exists."""

import re
import subprocess
from pathlib import Path

import pytest

from axbridge import __version__

ROOT = Path(__file__).parents[1]
TARGETS = set(re.findall(r"(?m)^([\w]+):", (ROOT / "Makefile").read_text()))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_unless_a_job_says_more_and_name_tests_and_targets_that_there_are(path):
    text = path.read_text()
    assert re.search(r"(?m)^permissions:\n  contents: read$", text)
    for test in re.findall(r"tests/[\w./]+", text):
        assert (ROOT / test).exists(), test
    for words in re.findall(r"make PYTHON=python ([\w ]+)", text):
        assert set(words.split()) <= TARGETS


def test_the_citation_is_of_this_version():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_one_file_alone_says_where_the_repository_is():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if not listed.stdout:
        pytest.skip("no checkout of git")
    texts = {name: (ROOT / name).read_bytes() for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    address = re.compile(rb"axbridge/" rb"axbridge|axbridge[.]github")
    assert [name for name, text in texts.items() if address.search(text)] == ["pyproject.toml"]


def test_the_readme_begins_with_two_commands_that_there_are():
    text = (ROOT / "README.md").read_text()
    commands = [line.split("#")[0].strip() for line in re.findall(r"(?m)^\$ (.*)$", text)]
    assert commands == ["make demo", "make test"]
    assert text.index("$ make demo") < text.index("\n## ")
    assert {command.removeprefix("make ") for command in commands} <= TARGETS
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text()
    assert len(text.splitlines()) <= 45
