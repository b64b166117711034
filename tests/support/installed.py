"""axbridge as pip installs it: a wheel, an environment made from it, and a folder with nothing of this checkout."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.support.made_once import made_once

ROOT = Path(__file__).parents[2]


def installed(factory):
    """A wheel of this checkout, and an environment with axbridge from it."""
    return made_once(factory, "installed", _installed)


def _installed(folder):
    pip, env = [sys.executable, "-m", "pip"], folder / "env"
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    wheel = next(folder.glob("axbridge-*.whl"))
    venv.create(env, with_pip=False, symlinks=True)
    subprocess.run([*pip, "--python", env / "bin" / "python", "install", "-q", "--no-deps", wheel], check=True)
    # its dependencies are those of this test run's environment
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (next(env.glob("lib/python*/site-packages")) / "borrowed.pth").write_text(borrowed + "\n")
    return wheel, env


def settings(env):
    """Environment variables in which `env` is active, and this checkout is not to be found."""
    path = os.pathsep.join((str(env / "bin"), os.environ["PATH"]))
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PATH": path}
