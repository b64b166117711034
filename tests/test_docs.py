"""What the documentation tells people to type works: every `$ axbridge …` and `$ python …` line, every Python block.

It works for whoever has only the wheel: each page is followed in an empty folder, in an environment made from the
wheel. A block below a line `<!-- needs hardware -->` (or any other `<!-- needs … -->`) is not run; one below
`<!-- file NAME -->` is saved under that name first. /dev/ttyUSB0 and /dev/pts/3 stand for the port of a served bench
arm.
"""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from axbridge.serve.background import serving
from tests.support.installed import build_wheel, environment, settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^(?P<need><!-- needs [^\n]*-->\n)?(?:<!-- file (?P<file>\S+) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
PATIENCE = 300  # s for one command


def blocks(page, kind):
    return [
        m["body"] for m in BLOCK.finditer(page.read_text()) if m["kind"] == kind and not m["need"] and not m["file"]
    ]


def commands(page):
    """The runnable lines of a page, in order; a trailing backslash continues one."""
    lines = "".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.startswith("$ ")]
    return [line for line in typed if line.split()[0] in {"axbridge", "python"}]


def with_something_to_run(kind):
    return [
        pytest.param(page, id=page.name)
        for page in PAGES
        if (commands(page) if kind == "console" else blocks(page, kind))
    ]


@pytest.fixture(scope="module")
def port():
    with serving("bench_arm") as device:
        yield device


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return environment(build_wheel(folder), folder / "env")


@pytest.fixture
def follow(env, port, tmp_path):
    """Type something in an empty folder, as a reader does, and see that it ends well."""

    def typed(line):
        done = subprocess.run(
            re.sub(r"/dev/(ttyUSB0|pts/3)\b", port, line),
            shell=True,
            cwd=tmp_path,
            env=settings(env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"

    return typed


def save_files(page, folder):
    """What the reader is told to write."""
    for block in BLOCK.finditer(page.read_text()):
        if block["file"]:
            path = folder / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"])


@pytest.mark.parametrize("page", with_something_to_run("console"))
def test_commands_of_the_page_work(page, follow, tmp_path):
    save_files(page, tmp_path)
    for command in commands(page):
        follow(command)


@pytest.mark.parametrize("page", with_something_to_run("python"))
def test_python_of_the_page_runs(page, follow, tmp_path):
    save_files(page, tmp_path)
    for block in blocks(page, "python"):
        follow(f"python -c {shlex.quote(block)}")
