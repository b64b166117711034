"""The container: no test builds it, but what its image runs works for people who have the wheel alone."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installed import installed, settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
IMAGE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "install.md").read_text()


def listed(instruction):
    (found,) = re.findall(rf"(?m)^{instruction} (\[.*\])$", IMAGE)
    return json.loads(found)


def typed():
    """What is run in the container, for each `podman run` of the page."""
    lines = re.findall(r"(?m)^\$ podman run .* axbridge ?(.*)$", PAGE)
    return [shlex.split(line) or listed("CMD") for line in lines]


def test_the_image_installs_extras_that_there_are():
    (extras,) = re.findall(r"\*\.whl\)\[([\w,]+)\]", IMAGE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)


def test_the_page_is_published_on_the_port_it_is_served_on():
    (port,) = re.findall(r"(?m)^EXPOSE (\d+)$", IMAGE)
    (view,) = (words for words in typed() if words[0] == "view")
    assert view[view.index("--page-port") + 1] == port
    assert f"--publish 127.0.0.1:{port}:{port} axbridge view" in PAGE


def test_the_image_starts_axbridge_and_by_itself_the_demo():
    assert listed("ENTRYPOINT") == ["axbridge"]
    assert [words[0] for words in typed()] == ["demo", "record", "view"]
    assert typed()[0] == listed("CMD")


@pytest.mark.ci
@pytest.mark.parametrize("words", typed()[1:], ids=lambda words: words[0])  # `make wheel` runs the demo
def test_what_the_page_runs_in_the_container_works(words, tmp_path, tmp_path_factory):
    _, env = installed(tmp_path_factory)
    if words[0] == "view":
        words = [*words, "--duration", "1"]
        words[words.index("--page-port") + 1] = "0"
    done = subprocess.run(
        [env / "bin" / "axbridge", *words], cwd=tmp_path, env=settings(env), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
