"""A wheel carries its profiles and rigs, and axbridge runs from it in an environment of its own."""

import os
import shlex
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from axbridge.serve.background import serving
from tests.test_docs import commands, on

pytestmark = pytest.mark.slow

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
        "docs/real/xl330_pendulum/xl330_kp400_lift_and_drop.json",
        "docs/real/xl330_pendulum/LICENSE.xl330",
    ):
        assert f"axbridge/_data/{kind}" in names


@pytest.fixture(scope="module")
def env(wheel, tmp_path_factory):
    """An environment with axbridge from the wheel; its dependencies are borrowed from that of this test run."""
    env = tmp_path_factory.mktemp("wheel") / "env"
    venv.create(env, with_pip=False, symlinks=True)
    python = env / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel], check=True)
    site = next(env.glob("lib/python*/site-packages"))
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "borrowed.pth").write_text(borrowed + "\n")
    return env


def without_checkout(env):
    path = os.pathsep.join((str(env / "bin"), os.environ["PATH"]))
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PATH": path}


def test_installed_wheel_finds_its_data_without_the_checkout(env, tmp_path):
    code = (
        "import axbridge; from axbridge.config.rig import Rig; rig = Rig.load('bench_arm');"
        "print(axbridge.__file__); print(rig.model_of(rig.servos[0]).name, rig.urdf_path().is_file())"
    )
    command = [env / "bin" / "python", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=without_checkout(env), capture_output=True, text=True)
    assert done.stderr == ""
    site = next(env.glob("lib/python*/site-packages"))
    assert done.stdout.splitlines() == [str(site / "axbridge" / "__init__.py"), "lima2009 True"]


def test_readme_commands_work_from_the_wheel_in_an_empty_folder(env, tmp_path):
    with serving("bench_arm") as port:
        for command in commands(ROOT / "README.md"):
            done = subprocess.run(
                shlex.split(on(port, command)),
                cwd=tmp_path,
                env=without_checkout(env),
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
