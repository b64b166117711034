"""Pendulum logs of a real XL330 through the registers of the virtual one, beside its model in closed form.

Takes a folder of Rhoban's XL330 logs (`kp100_sin_sin.json`, …). Prints JSON: by log the mean absolute errors, degrees,
of both, and how far apart they are. A joint that creeps to a stop depends on small differences:
so each log is replayed from a few places within a count, with goals up to half a millisecond off. Both start at rest,
as the logs do: their speeds have a count more.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_runs import runs_of
from axbridge.config.rig import Rig
from axbridge.recording.import_logs import import_log
from axbridge.servo.columns import Param, pack
from axbridge.sim.rollout import rollouts

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.x_logs import COUNT, through_registers


def in_closed_form(log, rig, aside, late):
    """Where the model was, rad, (n,)."""
    runs, row = runs_of([log], rig), pack(rig.model_of(rig.servos[0]), COUNT)
    position, velocity = runs.position.copy(), runs.velocity.copy()
    position[0] += aside
    velocity[0] = 0.0
    row[Param.LATENCY] += late
    return rollouts(row[None], runs._replace(position=position, velocity=velocity))[0]


def measured(log, rig, turns):
    """Mean absolute errors, degrees."""
    (track,) = log.values()
    rng = np.random.default_rng(1)
    aside, late = rng.uniform(-0.5, 0.5, turns) * COUNT, rng.uniform(-0.5e-3, 0.5e-3, turns)
    plain = [in_closed_form(log, rig, *way) for way in zip(aside, late, strict=True)]
    through = [through_registers(log, rig, aside=a, late=b) for a, b in zip(aside, late, strict=True)]

    def errors(ways):
        return [float(np.degrees(np.abs(way - track.position).mean())) for way in ways]

    return {
        "closed_form_deg": float(np.mean(errors(plain))),
        "closed_form_from_to_deg": [min(errors(plain)), max(errors(plain))],
        "registers_deg": float(np.mean(errors(through))),
        "registers_from_to_deg": [min(errors(through)), max(errors(through))],
        "apart_deg": float(np.degrees(np.abs(np.array(plain) - np.array(through)).mean())),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--turns", type=int, default=4, help="replays of each log")
    options = parser.parse_args()
    rig = Rig.load("xl330_pendulum").with_model("xl330")
    found = {path.stem: measured(import_log(path), rig, options.turns) for path in sorted(options.logs.glob("*.json"))}
    means = {
        key: float(np.mean([one[key] for one in found.values()]))
        for key in ("closed_form_deg", "registers_deg", "apart_deg")
    }
    print(json.dumps({"logs": found, "mean": means}, indent=2))


if __name__ == "__main__":
    main()
