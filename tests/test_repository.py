"""Files of the repository that no other test reads: they are correct, and all files and targets in them exist."""

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from axbridge import __version__

ROOT = Path(__file__).parents[1]
TARGETS = set(re.findall(r"(?m)^([\w]+):", (ROOT / "Makefile").read_text()))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_read_permission_and_name_existing_tests_and_targets(path):
    text = path.read_text()
    assert re.search(r"(?m)^permissions:\n  contents: read$", text)
    for test in re.findall(r"tests/[\w./]+", text):
        assert (ROOT / test).exists(), test
    for words in re.findall(r"make PYTHON=python ([\w ]+)", text):
        assert set(words.split()) <= TARGETS


def test_the_citation_has_this_version():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_only_the_metadata_and_the_readme_have_the_address_of_the_repository():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if not listed.stdout:
        pytest.skip("no checkout of git")
    texts = {name: (ROOT / name).read_bytes() for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    address = re.compile(rb"axbridge/" rb"axbridge|axbridge[.]github")
    assert [name for name, text in texts.items() if address.search(text)] == ["README.md", "pyproject.toml"]


def test_the_readme_begins_with_two_existing_commands():
    text = (ROOT / "README.md").read_text()
    commands = [line.split("#")[0].strip() for line in re.findall(r"(?m)^\$ (.*)$", text)]
    assert commands == ["make demo", "make test"]
    assert text.index("$ make demo") < text.index("\n## ")
    assert {command.removeprefix("make ") for command in commands} <= TARGETS
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text()
    assert len(text.splitlines()) <= 80


# Words for persons and private words: what the field calls it instead. `FoundServo` and `Found` are of the public API.
PRIVATE_WORDS = {
    "adrift": "unknown times", "astray": "limit", "begun": "start", "blind": "estimate", "calm": "steady",
    "culprit": "failed joint", "deafness": "write time", "debt": "momentum residual", "die": "lose power",
    "dies": "end", "farewell": "last message", "felt": "motor duty", "foretold": "predicted", "forget": "reset",
    "forgive": "expire", "forgiven": "tolerated", "forgot": "was reset", "forgotten": "lost", "found": "what it is",
    "hear": "receive", "heard": "received", "hears": "receives", "heeded": "mask", "hungry": "feed due", "knows": "has",
    "lapses": "torque losses", "listens": "receives", "mine": "held by this thread", "nobody": "none",
    "nonsense": "invalid", "obey": "apply", "overhear": "count stray", "owe": "late reply", "owed": "late reply",
    "owes": "late reply", "remember": "read, store", "somebody": "another", "speaker": "record", "spoke": "note reply",
    "told": "document", "unasked": "duplicate", "uneasy": "irregular", "unmute": "restore", "unproven": "unidentified",
    "unsure": "unverified", "wakes": "enables", "way": "path, direction", "who": "name",
}  # fmt: skip
JSON_KEYS = {("calibration.py", "way")}  # of a turn in the report of `verify`
PUBLIC = {"Found", "FoundServo", "ModuleNotFoundError", "PackageNotFoundError", "FileNotFoundError"}


def test_names_in_src_are_terms_of_the_field():
    used = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            if (
                token.type == tokenize.NAME
                and token.string not in PUBLIC
                and (path.name, token.string) not in JSON_KEYS
            ):
                words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", token.string)}
                for word in words & PRIVATE_WORDS.keys():
                    used[token.string] = f"{path.relative_to(ROOT)}:{token.start[0]}: use {PRIVATE_WORDS[word]}"
    assert not used
