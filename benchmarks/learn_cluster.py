"""A sweep, and a fit with its intervals, on a dask cluster of this machine.

    python benchmarks/learn_cluster.py [--workers 1 2] [--size 1.0] [--kinds sweep fit]

Prints JSON: for each kind of work the seconds with each number of workers, the bytes that a task sends and gets back,
whether the results are those of processes without dask, bit by bit, and what it costs when a worker is killed (SIGKILL)
in the middle. Needs `distributed`. Each cluster does a little of all kinds first: importing and compiling are not what
is asked. A worker has one thread; a machine whose cores have other work shows less speed-up.
"""

import argparse
import json
import os
import pickle
import signal
import sys
import time

from distributed import LocalCluster
from identify_intervals import motion, truth  # beside this file

from axbridge.comparison.recorded_runs import runs_of
from axbridge.config.rig import Rig
from axbridge.fit import identify
from axbridge.fit.search import Job as Start
from axbridge.fit.search import minimise
from axbridge.fit.unknowns import space_of
from axbridge.learn.sweep import SweepJob, figures, parse_axes, sweep

RIG = Rig.load("bench_arm")
KILLED_AT = 0.4  # of the tasks
TINY = 0.02  # size of what warms a cluster up


def swept(size, where, report):
    axes = parse_axes([f"latency=0:40:{max(2, round(12 * size))}", f"seed=0:7:{max(1, round(8 * size))}"])
    rows = sweep(RIG, axes, "step", where=where, report=lambda done, of: report(done / of))
    return [list(row.figures.values()) for row in rows]


def fitted(size, where, report):
    recordings = [motion(truth(), number) for number in range(12)]
    told = []

    def count(_stage, _outcome):
        told.append(None)
        report(min(1.0, len(told) / (6 + 15 * size)))

    budget, generations = (0.0, 1) if size == TINY else (25 * size, 60)
    fit = identify(recordings, RIG, "ax12", starts=4, generations=generations, budget=budget, where=where, report=count)
    return [[e.value, e.low, e.high] for e in fit.estimates]


def sizes():
    """Bytes of a task of each kind, and of its result."""
    runs = runs_of([motion(truth(), number) for number in range(12)], RIG)
    start = Start(space_of("ax12", None, truth()), runs, seed=0, generations=1, loss="huber")
    tasks = {
        "sweep": (figures, SweepJob(RIG, (("latency", 0.0), ("seed", 1.0)), "step", 1)),
        "fit": (minimise, start),
    }
    return {
        kind: {"out_bytes": len(pickle.dumps(task)), "back_bytes": len(pickle.dumps(task[0](task[1])))}
        for kind, task in tasks.items()
    }


def timed(work, size, where, report=lambda _share: None):
    began = time.monotonic()
    found = work(size, where, report)
    return round(time.monotonic() - began, 1), found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--kinds", nargs="+", default=["sweep", "fit"])
    given = parser.parse_args()
    kinds = {kind: {"sweep": swept, "fit": fitted}[kind] for kind in given.kinds}
    found = {kind: facts for kind, facts in sizes().items() if kind in kinds}
    here = {kind: timed(work, given.size, None) for kind, work in kinds.items()}
    for kind, (seconds, _) in here.items():
        found[kind] |= {"processes_s": seconds, "same": True}
    for count in given.workers:
        with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster:
            where = cluster.scheduler_address.replace("tcp", "dask")
            for work in kinds.values():
                work(TINY, where, lambda _share: None)
            for kind, work in kinds.items():
                seconds, there = timed(work, given.size, where)
                found[kind][f"workers_{count}_s"] = seconds
                found[kind]["same"] &= there == here[kind][1]
                print(kind, count, seconds, file=sys.stderr, flush=True)
            if count == max(given.workers):
                for kind, work in kinds.items():
                    killed = []

                    def kill(share, killed=killed, cluster=cluster):
                        if share >= KILLED_AT and not killed:
                            killed.append(next(iter(cluster.workers.values())).pid)
                            os.kill(killed[0], signal.SIGKILL)

                    seconds, there = timed(work, given.size, where, kill)
                    found[kind] |= {"one_killed": bool(killed), "one_killed_s": seconds}
                    found[kind]["same"] &= there == here[kind][1]
                    print(kind, "killed", seconds, file=sys.stderr, flush=True)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
