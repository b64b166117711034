"""The wheel has all data of axbridge, and the container's commands work with only the wheel installed."""

import json
import re
import shlex
import subprocess
import zipfile

import pytest

from axbridge import __version__
from axbridge.config.toml_tables import tomllib
from tests.support.installed import ROOT, installed, settings

IMAGE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "install.md").read_text()


def listed(instruction):
    (match,) = re.findall(rf"(?m)^{instruction} (\[.*\])$", IMAGE)
    return json.loads(match)


def typed():
    """Return the command in the container for each `podman run` of the page."""
    lines = re.findall(r"(?m)^\$ podman run .* axbridge ?(.*)$", PAGE)
    return [shlex.split(line) or listed("CMD") for line in lines]


def test_the_container_publishes_the_port_of_the_page():
    (port,) = re.findall(r"(?m)^EXPOSE (\d+)$", IMAGE)
    (view,) = (words for words in typed() if words[0] == "view")
    assert view[view.index("--page-port") + 1] == port
    assert f"--publish 127.0.0.1:{port}:{port} axbridge view" in PAGE


def test_the_image_installs_existing_extras_and_runs_axbridge_with_the_demo_as_the_default():
    (extras,) = re.findall(r"\*\.whl\)\[([\w,]+)\]", IMAGE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    assert listed("ENTRYPOINT") == ["axbridge"]
    assert [words[0] for words in typed()] == ["demo", "record", "view"]
    assert typed()[0] == listed("CMD")


@pytest.mark.ci
@pytest.mark.parametrize("words", typed()[1:], ids=lambda words: words[0])  # `make wheel` runs the demo
def test_the_pages_container_commands_work(words, tmp_path, tmp_path_factory):
    _, env = installed(tmp_path_factory)
    if words[0] == "view":
        words = [*words, "--duration", "1"]
        words[words.index("--page-port") + 1] = "0"
    finished = subprocess.run(
        [env / "bin" / "axbridge", *words], cwd=tmp_path, env=settings(env), capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


# ---- the wheel


@pytest.fixture
def archive(tmp_path_factory):
    return zipfile.ZipFile(installed(tmp_path_factory)[0])


@pytest.mark.slow
def test_wheel_holds_the_package_its_data_and_nothing_else(archive):
    names = {name for name in archive.namelist() if ".dist-info/" not in name}
    data = {name.removeprefix("axbridge/_data/") for name in names if name.startswith("axbridge/_data/")}
    source = ROOT / "src"
    package = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert {name for name in names if "/_data/" not in name} == {name for name in package if "__pycache__" not in name}
    assert [name for name in data if not (ROOT / name).is_file()] == []
    moves = {f"examples/{move.name}" for move in (ROOT / "examples").glob("*.json")}
    real = {f"docs/real/xl330_pendulum/{name}" for name in ("xl330_kp400_lift_and_drop.json", "LICENSE.xl330")}
    models = {"firmware_profiles/ax-12a.toml", "firmware_profiles/models/ax12.toml"}
    assert moves | real | models | {"hil_rigs/bench_arm/bench_arm.urdf"} <= data


@pytest.mark.slow
def test_the_front_page_on_an_index_links_to_the_repository(archive):
    facts, page = archive.read(f"axbridge-{__version__}.dist-info/METADATA").decode().split("\n\n", 1)
    repository = re.search(r"(?m)^Project-URL: Repository, https://[^/]+/(\S+)$", facts)[1]
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith("https://")] == []
    ours = rf"https://[\w.]+/{repository}/(?:blob/)?v{re.escape(__version__)}/([^#]+)(?:#.*)?"
    named = [match[1] for match in (re.fullmatch(ours, link) for link in links) if match]
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_installed_wheel_finds_its_data_without_the_checkout(tmp_path_factory, tmp_path):
    _, env = installed(tmp_path_factory)
    code = (
        "import axbridge; from axbridge.config.rig import Rig; rig = Rig.load('bench_arm');"
        "print(axbridge.__file__); print(rig.specs[rig.servos[0].name].model.name, rig.urdf_path().is_file())"
    )
    command = [env / "bin" / "python", "-c", code]
    finished = subprocess.run(command, cwd=tmp_path, env=settings(env), capture_output=True, text=True)
    assert finished.stderr == ""
    site = next(env.glob("lib/python*/site-packages"))
    assert finished.stdout.splitlines() == [str(site / "axbridge" / "__init__.py"), "lima2009 True"]
