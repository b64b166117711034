"""A wheel carries its profiles and rigs, and axbridge runs from it in an environment of its own."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ROOT]
    subprocess.run(build, check=True)
    return next(out.glob("axbridge-*.whl"))


def test_wheel_holds_profiles_models_rigs_and_urdfs(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for kind in (
        "firmware_profiles/ax-12a.toml",
        "firmware_profiles/models/ax12.toml",
        "hil_rigs/bench_arm/bench_arm.urdf",
    ):
        assert f"axbridge/_data/{kind}" in names


def test_installed_wheel_finds_its_data_without_the_checkout(wheel, tmp_path):
    env = tmp_path / "env"
    venv.create(env, with_pip=False, symlinks=True)
    python = env / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel], check=True)
    # Dependencies are borrowed from the environment of this test run; axbridge itself must come from the wheel.
    site = next(env.glob("lib/python*/site-packages"))
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "borrowed.pth").write_text(borrowed + "\n")
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    code = (
        "import axbridge; from axbridge.config.rig import Rig; rig = Rig.load('bench_arm');"
        "print(axbridge.__file__); print(rig.model_of(rig.servos[0]).name, rig.urdf_path().is_file())"
    )
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [str(site / "axbridge" / "__init__.py"), "lima2009 True"]
    listed = subprocess.run(
        [env / "bin" / "axbridge", "--help"], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert listed.returncode == 0
