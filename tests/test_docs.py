"""What the documentation tells people to type works: every `$ axbridge …` and `$ python …` line, every Python block.

A block below a line `<!-- needs hardware -->` (or any other `<!-- needs … -->`) is not run; one below `<!-- file NAME -->`
is saved under that name first. /dev/ttyUSB0 and /dev/pts/3
stand for the port of a served bench arm.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from axbridge import cli
from axbridge.cli.app import run
from axbridge.serve.background import serving

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^(?P<need><!-- needs [^\n]*-->\n)?(?:<!-- file (?P<file>\S+) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)

for verb in iter_modules(cli.__path__):
    import_module(f"axbridge.cli.{verb.name}")


def blocks(page, kind):
    return [
        m["body"] for m in BLOCK.finditer(page.read_text()) if m["kind"] == kind and not m["need"] and not m["file"]
    ]


def save_files(page, desk):
    """What the reader was told to write."""
    for block in BLOCK.finditer(page.read_text()):
        if block["file"]:
            path = desk / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"])


def commands(page):
    """The runnable lines of a page, in order; a trailing backslash continues one."""
    lines = "".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.startswith("$ ")]
    return [line for line in typed if line.split()[0] in {"axbridge", "python"}]


def on(port, text):
    return re.sub(r"/dev/(ttyUSB0|pts/3)\b", port, text)


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


@pytest.fixture
def desk(tmp_path):
    """A folder with nothing in it but the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def environment():
    bin_folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": bin_folder + os.pathsep + os.environ["PATH"]}


@pytest.mark.parametrize("page", with_something_to_run("console"))
@pytest.mark.filterwarnings("default")  # what a person at a terminal would be told
def test_commands_of_the_page_work(page, desk, port, monkeypatch, capfd):
    monkeypatch.chdir(desk)
    save_files(page, desk)
    for command in commands(page):
        typed = on(port, command)
        if typed.startswith("axbridge ") and not set(typed) & set("|&;<>$*"):  # nothing for a shell: no new process
            code = run(shlex.split(typed)[1:])
        else:
            typed = typed.replace("axbridge ", f"{sys.executable} -m axbridge ", 1)
            code = subprocess.run(typed, shell=True, env=environment(), timeout=120, check=False).returncode
        said = "".join(capfd.readouterr())
        assert code == 0, f"$ {command}\n{said}"


@pytest.mark.parametrize("page", with_something_to_run("python"))
def test_python_of_the_page_runs(page, desk, port):
    save_files(page, desk)
    for block in blocks(page, "python"):
        done = subprocess.run(
            [sys.executable, "-c", on(port, block)],
            cwd=desk,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
