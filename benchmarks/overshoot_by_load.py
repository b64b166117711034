"""Why does a real AX-12A overshoot more with a heavier bar than `ax12`? What the six steps of docs/real allow.

    python benchmarks/overshoot_by_load.py [--only NAME ...]

Each explanation is one change of `ax12`. Torque constant, armature, dead duty and lag are fitted to the six steps again
(restored times), then steps with heavier bars are simulated. Printed are how far each overshoots, and the difference of
the steps' log-likelihood from that of `ax12`: of the motion alone, with a count's rounding and the times' own error.
The last rows have the first row's servo with its bar on a torsion spring, in an integration of its own that shares no
code with the simulator.
"""

import argparse
import math
from pathlib import Path

import numpy as np

from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.fit.least_squares import polish
from axbridge.fit.prediction import predicted
from axbridge.fit.prepare import base_model, loaded_with
from axbridge.fit.unknowns import space_of
from axbridge.recording import import_wizard
from axbridge.recording.import_logs import import_log
from axbridge.recording.import_wizard import GivenGoal
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from axbridge.units import AX

STEPS = Path(__file__).parents[1] / "docs" / "real" / "ax12a_steps"
RIG = Rig.load("bare_horn")
NAMES = [f"AX12A_{kind}_{k}" for kind in ("NOLOAD", "LOAD2") for k in (1, 2, 3)]
LOADS = (2e-7, 3.0e-4, 1.019e-3, 4.0e-3)  # kg·m²: horn, a lighter bar, the bar, a heavier one
HELD = (
    "motor.efficiency", "motor.max_current", "motor.backlash", "friction.coulomb", "friction.output", "friction.viscous"
)  # fmt: skip
FROM, TO = (1 - 512) * AX.position, (500 - 512) * AX.position
NOISE = 0.12  # degrees: of a reading, with its rounding
BASE = packed(base_model(RIG, "ax12"), RIG)
BASE[[Param.MAX_CURRENT, Param.BACKLASH]] = 0.0  # what these do is among the explanations
EXPLANATIONS = {
    "ax12 without a limit": {},
    **{
        f"loop every {ms} ms": {Param.PERIOD: ms * 1e-3, Param.LAG: max(0.001, 0.0126 - ms * 5e-4)}
        for ms in (4, 8, 12, 16)
    },
    "backlash 0.5°, all friction before it": {
        Param.BACKLASH: math.radians(0.5),
        Param.COULOMB: BASE[Param.COULOMB] + BASE[Param.OUTPUT],
        Param.OUTPUT: 0.0,
    },
    **{f"{ohm} ohm by duty": {Param.RESISTANCE_PER_DUTY: ohm, Param.RESISTANCE: 8.0 - ohm} for ohm in (3.0, 5.5)},
    **{
        f"efficiency {share}": {Param.EFFICIENCY: share, Param.ARMATURE: BASE[Param.ARMATURE] * share / 0.5944}
        for share in (0.4, 0.8)
    },
    **{f"current up to {amps} A": {Param.MAX_CURRENT: amps} for amps in (1.8, 1.6, 1.46, 1.3)},
}
EXPLANATIONS |= {
    f"play of {degrees}° with friction behind it, {amps} A": {
        Param.MAX_CURRENT: amps, Param.BACKLASH: math.radians(degrees)
    }
    for amps in (1.4, 1.5, 1.6, 2.2) for degrees in (0.0, 0.22)
}  # fmt: skip
SPRINGS = (None, 3, 5, 8, 12, 20, 40, 100, 400)  # N·m/rad


def real_steps():
    found = [import_log(STEPS / f"{name}.csv", servo="horn", goal=GivenGoal(500)) for name in NAMES]
    bars = [f"{name}.csv=bar:0.088,0.37227,0.01915" for name in NAMES if "LOAD2" in name]
    return runs_of(loaded_with(bars, found)[0], RIG)


def heavier_steps():
    time = np.arange(0, 1.2, 0.002)
    track = Track.of(
        "horn", time, command=np.where(time < 0.05, FROM, TO), position=np.full(len(time), FROM),
        torque_enabled=np.ones(len(time)), voltage=np.full(len(time), 12.0),
    )  # fmt: skip
    facts = describe(backend="sim")
    return runs_of(
        [Recording(Path("s"), {"horn": track}, (), {}, facts | {"load": {"inertia": J}}) for J in LOADS], RIG
    )


def likelihood(row, runs):
    """Logarithm, of the 0.8 s around each motion."""
    seen, total = np.degrees(predicted(row[None], runs)[0]), 0.0
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        time, path = runs.time[a:b], seen[a:b]
        speed = np.gradient(path, time)
        began = time[np.flatnonzero(np.abs(speed) > 20)[0]]
        chosen = (time > began - 0.05) & (time < began + 0.75)
        variance = NOISE**2 + (speed * import_wizard.JITTER) ** 2
        error = (path - np.degrees(runs.position[a:b])) ** 2 / variance
        total -= 0.5 * float(np.sum((np.minimum(error, 25) + np.log(variance))[chosen]))
    return total


def overshoots(row, runs):
    path = np.degrees(rollouts(row[None], runs, 5e-4)[0])
    return [float(path[a:b].max() - path[b - 1]) for a, b in zip(runs.start[:-1], runs.start[1:], strict=True)]


def on_a_spring(row, inertia, stiffness, step=1e-4):
    """Overshoot, degrees, of a servo without limit and play, whose bar is on a lightly damped spring; None = stiff."""
    constant, efficiency, armature, lag, dead = row[
        [Param.CONSTANT, Param.EFFICIENCY, Param.ARMATURE, Param.LAG, Param.DEAD_DUTY]
    ]
    resistance, by_duty, viscous = row[[Param.RESISTANCE, Param.RESISTANCE_PER_DUTY, Param.VISCOUS]]
    dry = row[Param.COULOMB] + row[Param.OUTPUT]
    damping = 0.04 * math.sqrt((stiffness or 0) * inertia)
    goal, angle, speed = 499 * AX.position, 0.0, 0.0
    bar, turning, seen, duty, path = 0.0, 0.0, 0.0, 0.0, []
    for tick in range(round(1.2 / step)):
        seen += step / lag * (angle - seen)
        if tick % 10 == 0:
            error = (goal - round(seen / AX.position) * AX.position) / AX.position
            asked = min(1.0, (32 + (1023 - 32) * (abs(error) - 1) / 32) / 1023) if abs(error) > 1 else 0.0
            duty = math.copysign(max(0.0, (asked - dead) / (1 - dead)), error)
        current = (12.0 * duty - constant * speed) / (resistance + by_duty * abs(duty))
        spring = 0.0 if stiffness is None else stiffness * (angle - bar) + damping * (speed - turning)
        torque = efficiency * constant * current - spring - viscous * speed
        moved = armature + (inertia if stiffness is None else 0.0)
        stop = speed * moved / step + torque
        speed += step * (torque - math.copysign(min(dry, abs(stop)), stop)) / moved
        angle += step * speed
        turning += step * spring / inertia
        bar += step * turning
        path.append(math.degrees(angle))
    return max(path) - path[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=EXPLANATIONS, default=list(EXPLANATIONS))
    given = parser.parse_args()
    runs, heavier = real_steps(), heavier_steps()
    first = plain = None
    print("| what else could be | " + " | ".join(f"{J:.4f} kg·m²" for J in LOADS) + " | steps |\n|---|---|---|---|---|")
    for name in given.only:
        base = BASE.copy()
        for column, value in EXPLANATIONS[name].items():
            base[column] = value
        space = space_of("ax12", "M1", base, unknown_command_times=True).without(HELD)
        row = space.sets(polish(space, runs, space.point(base), rounds=12)[None])[0]
        found = likelihood(row, runs)
        first, plain = (found, row) if first is None else (first, plain)
        over = " | ".join(f"{one:.2f}°" for one in overshoots(row, heavier))
        print(f"| {name} | {over} | {found - first:+.0f} |", flush=True)
    for stiffness in SPRINGS:
        over = " | ".join(f"{on_a_spring(plain, J, stiffness):.2f}°" for J in LOADS[1:])
        print(f"| {'no spring' if stiffness is None else f'on {stiffness} N·m/rad'} | | {over} | |", flush=True)


if __name__ == "__main__":
    main()
