"""All commands of the documentation work: every `$ axbridge …` and `$ python …` line, and every Python block.

They work with only the wheel installed: each page is followed in an empty folder, in an environment made from the
wheel. The commands of README and of the tutorial are run by `make test`, those of the other pages by `make long`. A block
below a line `<!-- needs hardware -->` (or any other `<!-- needs … -->`) is not run. A block below `<!-- file NAME -->` is
saved under that name first. /dev/ttyUSB0 and /dev/pts/3 stand for the port of a served bench arm.
"""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.installed import installed, settings
from tests.support.warm import Warm, serving

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIRST = {"README.md", "tutorial.md"}  # the pages that new users read
BLOCK = re.compile(
    r"^(?P<need><!-- needs [^\n]*-->\n)?(?:<!-- file (?P<file>\S+) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
TIMEOUT = 300  # s for one command


EXPLAINED = {"design.md", "glossary.md"}  # for those who change axbridge, and words: nothing to type
TYPED = [page for page in PAGES if page.name not in EXPLAINED]
LIMITS = re.compile(r"What (can go wrong|was tried|.* (does|do) not )")
# What is written otherwise on Windows, and mostly on macOS: devices, links, and paths of an environment.
LINUX_ONLY = r"/dev/tty(?:USB|ACM)\d", r"--link ", r"env/bin/"


def blocks(page, kind):
    matches = (block for block in BLOCK.finditer(page.read_text()) if block["kind"] == kind)
    return [block["body"] for block in matches if not block["need"] and not block["file"]]


def commands(page):
    """Return the commands of a page, in order; a trailing backslash continues a line."""
    lines = "".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.startswith("$ ")]
    return [line for line in typed if line.split()[0] in {"axbridge", "python"}]


def with_commands():
    def case(page):
        return pytest.param(page, id=page.name, marks=() if page.name in FIRST else pytest.mark.ci)

    return [case(page) for page in PAGES if commands(page)]


@pytest.fixture(scope="module")
def port():
    with serving("bench_arm") as device:
        yield device


@pytest.fixture
def follow(port, tmp_path, tmp_path_factory):
    """Return a function that runs a command in an empty folder, as a reader does, and checks that it succeeds.

    A command with shell syntax runs in a shell. Others run in processes that have imported axbridge before.
    """
    _, env = installed(tmp_path_factory)
    options = {"cwd": tmp_path, "env": settings(env), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def typed(line):
        line = re.sub(r"/dev/(ttyUSB0|pts/3)\b", port, line)
        words = shlex.split(line)
        if ">" not in words and words[0] == "axbridge":
            process = Warm("-m", *words, python=env / "bin" / "python", **options)
        elif words[:2] == ["python", "-c"]:
            process = Warm(*words[1:], python=env / "bin" / "python", **options)
        else:
            process = subprocess.Popen(line, shell=True, text=True, **options)
        with process:
            out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, f"$ {line}\n{out}{err}"

    return typed


def save_files(page, folder):
    """Save the files of a page."""
    for block in BLOCK.finditer(page.read_text()):
        if block["file"]:
            path = folder / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"])


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
def test_the_page_has_something_to_type_or_a_picture_within_ten_lines(page):
    lines = [line for line in page.read_text().splitlines() if line and not line.startswith("<!--")]
    assert re.search(r"(?m)^(!\[|```\w+\n\S)", "\n".join(lines[:10]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_limits_of_a_page_come_after_its_functions(page):
    headings = re.findall(r"(?m)^## (.*)", page.read_text())
    while headings and (headings[-1] == "Where to go next" or LIMITS.match(headings[-1])):
        headings.pop()
    assert not [heading for heading in headings if LIMITS.match(heading)]


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
def test_the_first_line_that_is_for_linux_has_that_of_windows_beside_it(page):
    sections = re.split(r"(?m)^(?=## )", page.read_text())
    for only in LINUX_ONLY:
        first = next((section for section in sections if re.search(only, section)), "Windows")
        assert "Windows" in first, f"{only} in {first.splitlines()[0]}"
    assert not re.search(r"pip install [^`\n]*'", page.read_text()), "only double quotes are quotes on Windows"


@pytest.mark.parametrize("page", with_commands())
def test_commands_of_the_page_work(page, follow, tmp_path):
    save_files(page, tmp_path)
    for command in commands(page):
        follow(command)


def test_all_imports_on_the_pages_work_also_in_blocks_that_are_not_run():
    imports = []
    for page in PAGES:
        python = [block["body"] for block in BLOCK.finditer(page.read_text()) if block["kind"] == "python"]
        imports += re.findall(r"^from axbridge\S* import .*", "\n".join(python), re.MULTILINE)
    assert len(imports) > 5
    exec("\n".join(imports), {})


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_of_the_page_runs(page, follow, tmp_path):
    save_files(page, tmp_path)
    for block in blocks(page, "python"):
        follow(f"python -c {shlex.quote(block)}")
