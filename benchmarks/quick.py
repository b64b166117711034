"""The five figures in which a change that makes axbridge slower shows on the day it is made; two minutes. Prints JSON.

`make bench-quick`. Each is what a longer script measures: `plant_cost.py` (a simulated step with a controller over the
bare engine), `plant_rollouts.py`, `bus_cycle.py` (`Robot.exchange` beside a loop of dynamixel-sdk, return delay 0) and
`first_run.py` (processor time, s, of `axbridge.open("bench_arm")` and 1 s of simulation, with an empty kernel cache).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bus_cycle import beside_sdk
from first_run import RUNS, first_answer
from plant_cost import measure
from plant_rollouts import rollouts_per_second


def main(turns: int = 12, sets: int = 1000, exchanges: int = 300) -> None:
    """Measure and print."""
    engines = measure(turns, every=False)["engines"]
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = first_answer(RUNS["bench_arm_1s"], Path(folder), Path(folder) / "cache")
    exchange = beside_sdk(exchanges, 0)
    report = {
        "step_over_bare": {name: row["ratio_with_controller"] for name, row in engines.items()},
        "rollouts_per_second": rollouts_per_second(sets),
        "exchange_over_sdk": {"rate": round(exchange["rate_ratio"], 3), "cpu": round(exchange["cpu_ratio"], 3)},
        "cold_start_cpu_s": round(cold, 2),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
