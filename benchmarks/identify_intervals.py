"""What the intervals of a fit cost: time and memory for 12, 120 and 1,200 recordings. Prints JSON.

Recordings are steps and falls of a virtual AX-12, 1.5 s each, with noise and whole counts. Only the intervals are
computed, from the truth. Each number of recordings has a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.fit.intervals import uncertainty
from axbridge.fit.prepare import base_model
from axbridge.fit.unknowns import space_of
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts

COUNT = math.radians(300 / 1023)
RIG = Rig.load("bench_arm")


def truth():
    row = packed(base_model(RIG, "ax12"), RIG)
    row[Param.NOISE] = math.radians(0.1)
    row[[Param.SLOPE, Param.PUNCH, Param.ARMATURE, Param.COULOMB, Param.LATENCY]] = [0.2, 0.05, 0.003, 0.03, 0.03]
    return row


def motion(row, number):
    """A step, or every fourth time a fall."""
    rng = np.random.default_rng(number)
    time, size, fall = np.arange(0, 1.5, 0.01), float(rng.uniform(0.3, 2.2)), number % 4 == 0
    command = np.full(len(time), size) if fall else np.where(time >= 0.1, size, 0.0)
    clean = Track.of(
        "shoulder", time, command=command, position=np.full(len(time), size if fall else 0.0),
        torque_enabled=np.full(len(time), 0.0 if fall else 1.0), voltage=np.full(len(time), 9.6),
    )  # fmt: skip
    recording = Recording(Path(f"{number}.mcap"), {"shoulder": clean}, (), {}, describe(backend="sim"))
    position = rollouts(row[None], runs_of([recording], RIG), 5e-4)[0] + rng.normal(0, math.radians(0.1), len(time))
    return replace(recording, tracks={"shoulder": replace(clean, position=COUNT * np.round(position / COUNT))})


def measured(count):
    """One number of recordings."""
    row = truth()
    runs = runs_of([motion(row, number) for number in range(count)], RIG)
    space = space_of("ax12", None, row)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, spent = time.monotonic(), time.process_time()
    sure = uncertainty(space, runs, space.point(row))
    seconds, alone = time.monotonic() - began, time.process_time() - spent
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wanted = np.array([row[unknown.column] for unknown in space.unknowns])
    return {
        "recordings": count,
        "seconds": round(seconds, 1),
        "processor_seconds": round(alone, 1),
        "memory_mb": round((own - before) / 1024),
        "intervals_with_the_truth": f"{int(((sure.low <= wanted) & (wanted <= sure.high)).sum())} of {len(space)}",
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--recordings", type=int, nargs="+", default=[12, 120, 1200])
    options = arguments.parse_args()
    if len(options.recordings) == 1:
        print(json.dumps(measured(options.recordings[0])))
        return
    found = []
    for count in options.recordings:
        done = subprocess.run([sys.executable, __file__, "--recordings", str(count)], capture_output=True, check=True)
        found.append(json.loads(done.stdout))
        print(found[-1], file=sys.stderr, flush=True)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
