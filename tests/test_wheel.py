"""A wheel carries its profiles and rigs, and axbridge finds them in an environment of its own."""

import re
import subprocess
import zipfile

import pytest

from axbridge import __version__
from tests.support.installed import ROOT, installed, settings

pytestmark = pytest.mark.slow


@pytest.fixture
def archive(tmp_path_factory):
    return zipfile.ZipFile(installed(tmp_path_factory)[0])


def test_wheel_holds_profiles_models_rigs_and_urdfs(archive):
    names = archive.namelist()
    for kind in (
        "firmware_profiles/ax-12a.toml",
        "firmware_profiles/models/ax12.toml",
        "hil_rigs/bench_arm/bench_arm.urdf",
        "docs/real/xl330_pendulum/xl330_kp400_lift_and_drop.json",
        "docs/real/xl330_pendulum/LICENSE.xl330",
        *(f"examples/{move.name}" for move in (ROOT / "examples").glob("*.json")),
    ):
        assert f"axbridge/_data/{kind}" in names


def test_wheel_holds_the_package_its_data_and_nothing_else(archive):
    names = {name for name in archive.namelist() if ".dist-info/" not in name}
    data = {name for name in names if name.startswith("axbridge/_data/")}
    source = ROOT / "src"
    package = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert names - data == {name for name in package if "__pycache__" not in name}
    assert [name for name in data if not (ROOT / name.removeprefix("axbridge/_data/")).is_file()] == []


def test_the_front_page_on_an_index_links_to_the_repository(archive):
    facts, page = archive.read(f"axbridge-{__version__}.dist-info/METADATA").decode().split("\n\n", 1)
    repository = re.search(r"(?m)^Project-URL: Repository, https://[^/]+/(\S+)$", facts)[1]
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith("https://")] == []
    ours = rf"https://[\w.]+/{repository}/(?:blob/)?v{re.escape(__version__)}/([^#]+)(?:#.*)?"
    named = [found[1] for found in (re.fullmatch(ours, link) for link in links) if found]
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_installed_wheel_finds_its_data_without_the_checkout(tmp_path_factory, tmp_path):
    _, env = installed(tmp_path_factory)
    code = (
        "import axbridge; from axbridge.config.rig import Rig; rig = Rig.load('bench_arm');"
        "print(axbridge.__file__); print(rig.model_of(rig.servos[0]).name, rig.urdf_path().is_file())"
    )
    command = [env / "bin" / "python", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=settings(env), capture_output=True, text=True)
    assert done.stderr == ""
    site = next(env.glob("lib/python*/site-packages"))
    assert done.stdout.splitlines() == [str(site / "axbridge" / "__init__.py"), "lima2009 True"]
