"""axbridge as pip installs it: a wheel, an environment made from it, and a folder with nothing of this checkout."""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(folder):
    """A wheel of this checkout, in `folder`; its path."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(build, check=True)
    return next(Path(folder).glob("axbridge-*.whl"))


def environment(wheel, folder):
    """An environment with axbridge from the wheel; its dependencies are borrowed from that of this test run."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "borrowed.pth").write_text(borrowed + "\n")
    return folder


def settings(env):
    """Environment variables in which `env` is active, and this checkout is not to be found."""
    path = os.pathsep.join((str(env / "bin"), os.environ["PATH"]))
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PATH": path}
