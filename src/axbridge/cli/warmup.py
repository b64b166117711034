"""`axbridge warmup`: compile all kernels in advance."""

from __future__ import annotations

import time

import axbridge
from axbridge import Rig, simulate
from axbridge.cli.options import verb
from axbridge.cli.progress import progress
from axbridge.errors import install
from axbridge.jit import COMPILED, cache_folder, compile_first, kernels
from axbridge.recording.sample_logs import load
from axbridge.sim.engines.choice import installed

_PLAY = {"motor": {"armature": 0.004, "backlash": 0.01}}  # backlash uses other kernels


@verb("")
def warmup() -> None:
    """Compile the code that simulations and fits need, once for each user, machine and Python.

    Without this verb it is compiled when a simulation takes longer than some seconds, or keeps pace with real time.
    """
    if not COMPILED:
        print(f"nothing to compile: without numba kernels run as plain Python ({install('numba')})")
        return
    compile_first()
    began = time.monotonic()
    with progress("looking for compiled kernels"):
        log, rig = load("xl330"), Rig.load("xl330_pendulum")
        for each in (rig, rig.with_servos(lambda _: {"params": _PLAY})):
            simulate(log, each)
        for name, engine in (("bare_horn", None), *(("bioloid", engine) for engine in installed())):
            with axbridge.open(name, engine=engine) as robot:
                robot.step()
    done, _ = kernels()
    took = f"{done} kernels compiled in {time.monotonic() - began:.0f} s" if done else "all kernels are compiled"
    print(f"{took}: {cache_folder()}")
