"""The first minute with axbridge, by the stop-watch: from `pip install` to the first picture.

Everything happens in out/first-minute, with caches of its own. *Cold* is a machine that has never seen axbridge, *warm*
the same command once more. Prints a table. `--installed` leaves the installation out and uses this environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "out" / "first-minute"


def seconds_of(*command, **settings):
    """How long a command takes; it must end well."""
    began = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def environment(cache):
    """Environment variables with compiled kernels, fonts and packages in a folder of their own."""
    own = FOLDER / cache
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return kept | {"XDG_CACHE_HOME": str(own), "PIP_CACHE_DIR": str(own / "pip"), "MPLCONFIGDIR": str(own / "mpl")}


def install(name, env):
    """Seconds for an environment and an installation into it, and its Python."""
    folder = FOLDER / name
    took = seconds_of(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    return took + seconds_of(python, "-m", "pip", "install", "--quiet", f"{ROOT}[all]", env=env), python


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--installed", action="store_true")
    installed = parser.parse_args().installed
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "desk").mkdir(parents=True)
    env = environment("cache")
    rows = []
    python = Path(sys.executable)
    if not installed:
        env.pop("PYTHONPATH", None)
        cold, _ = install("first", env)
        warm, python = install("second", env)
        rows.append(("make an environment, `pip install '.[all]'`", cold, warm))
    for label, *words in (
        ("`axbridge --help`", "--help"),
        ("`axbridge demo`: the first picture", "demo", "--force"),
        ("`axbridge demo --rig bioloid`", "demo", "--rig", "bioloid", "--out", "walk", "--force"),
    ):
        times = [seconds_of(python, "-m", "axbridge", *words, cwd=FOLDER / "desk", env=env) for _ in range(2)]
        rows.append((label, *times))
    print("| step | cold | warm |\n|---|---|---|")
    for label, cold, warm in [*rows, ("all of it", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))]:
        print(f"| {label} | {cold:.1f} s | {warm:.1f} s |")


main()
