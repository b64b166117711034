"""axbridge as pip installs it: a wheel, an environment made from it, and a folder with nothing of this checkout."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.support.made_once import made_once

ROOT = Path(__file__).parents[2]


def installed(factory):
    """A wheel of this checkout, and an environment with axbridge from it; made once, whichever process of pytest asks.

    Args:
        factory: pytest's `tmp_path_factory`.
    """
    return made_once(factory, "installed", _installed)


def _installed(folder):
    _build(folder)
    wheel = next(folder.glob("axbridge-*.whl"))
    _environment(wheel, folder / "env")
    return wheel, folder / "env"


def _build(folder):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(command, check=True)


def _environment(wheel, folder):
    """Its dependencies are borrowed from the environment of this test run."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "borrowed.pth").write_text(borrowed + "\n")


def settings(env):
    """Environment variables in which `env` is active, and this checkout is not to be found."""
    path = os.pathsep.join((str(env / "bin"), os.environ["PATH"]))
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PATH": path}
