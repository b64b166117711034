"""Draws the pictures of docs/how-real.md and writes its table: real steps beside the simulator.

    python tools/make_how_real.py

Each recording is predicted by the shipped models, through registers, bus and physics engine, and by a fit that
saw the recordings of the other load alone. Nobody knows when the commands went out, so each prediction has its best
time shift taken out.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import axbridge
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.registers import AX
from axbridge.config.rig import Rig
from axbridge.fit.least_squares import misfits, polish
from axbridge.fit.prediction import predicted
from axbridge.fit.prepare import base_model, loaded_with
from axbridge.fit.unknowns import space_of
from axbridge.recording import import_wizard
from axbridge.recording.import_logs import import_log
from axbridge.recording.import_wizard import GivenGoal
from axbridge.servo.columns import Param

ROOT = Path(__file__).resolve().parents[1]
STEPS = ROOT / "docs" / "real" / "ax12a_steps"
PAGE = ROOT / "docs" / "how-real.md"
RIG = Rig.load("bare_horn")
BAR = "bar:0.088,0.37227,0.01915"
FREE, LOADED = (tuple(f"AX12A_{kind}_{k}" for k in (1, 2, 3)) for kind in ("NOLOAD", "LOAD2"))
HELD = ("motor.efficiency", "motor.max_current", "friction.coulomb", "friction.viscous")
BEFORE, AFTER = 0.15, 0.85  # s around the first motion that errors are taken over
FINE = 0.0005  # s


@dataclass(frozen=True)
class Step:
    """A real step: counts (n,) at stamps and at restored times, s from the first motion on, and its load, kg·m²."""

    name: str
    stamps: np.ndarray
    times: np.ndarray
    counts: np.ndarray
    rest: float
    inertia: float


def real(name: str) -> Step:
    """One recording, cut to the motion."""
    track = import_log(STEPS / f"{name}.csv")["servo"]
    counts = 512 + track.position / AX.position
    began = track.time[np.flatnonzero(counts > counts[0] + 3)[0]]
    chosen = (track.time >= began - BEFORE) & (track.time <= began + AFTER)
    times = import_wizard.restored(track.time).time
    inertia = 0.0 if "NOLOAD" in name else 0.088 * (0.37227**2 + 0.01915**2) / 12
    return Step(
        name, track.time[chosen] - began, times[chosen] - began, counts[chosen], float(np.median(counts[-9:])), inertia
    )


def simulated(model: str, inertia: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, s from the command on, and counts of a step from 1 to 500, by the whole simulator at 12 V."""
    urdf = RIG.urdf_text()
    if inertia:
        urdf = urdf.replace('<mass value="0.003"/>', '<mass value="0.088"/>').replace('iyy="2e-7"', f'iyy="{inertia}"')
        urdf = urdf.replace('ixx="1e-7"', f'ixx="{inertia}"')
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bare_horn.urdf").write_text(urdf, encoding="utf-8")
        Path(folder, "rig.toml").write_text(RIG.path.read_text(encoding="utf-8"), encoding="utf-8")
        rig = Rig.load(Path(folder, "rig.toml"))
        start = (1 - 512) * AX.position
        rig = rig.model_copy(update={"servos": (rig.servos[0].model_copy(update={"model": model, "position": start}),)})
        times, counts = [], []
        with axbridge.open(rig, "sim") as robot:
            horn = robot["horn"]
            horn.set_position(start)
            for _ in range(20):
                robot.step(10)
            told = robot.time
            horn.set_position((500 - 512) * AX.position)
            while robot.time < told + 1.2:
                robot.step(2)
                times.append(horn.state.time - told)
                counts.append(512 + horn.position / AX.position)
    grid = np.arange(0.0, 1.2, FINE)
    return grid, np.interp(grid, times, counts)


def shift(step_times: np.ndarray, counts: np.ndarray, grid: np.ndarray, path: np.ndarray) -> tuple[float, float]:
    """Time to add to a recording's for the least error, s, and that error (RMS), degrees."""
    tried = np.arange(-0.05, 0.25, FINE)
    errors = [np.mean((np.interp(step_times + late, grid, path) - counts) ** 2) for late in tried]
    best = int(np.argmin(errors))
    return float(tried[best]), math.degrees(math.sqrt(errors[best]) * AX.position)


def floor(step: Step, grid: np.ndarray, path: np.ndarray) -> float:
    """RMS error, degrees, that the stamps make of a servo that does exactly what is simulated: mean of 100 draws."""
    rng = np.random.default_rng(0)
    late, _ = shift(step.times, step.counts, grid, path)
    found = []
    for _ in range(100):
        asked = step.times + late + rng.normal(0, import_wizard.JITTER, len(step.times))
        found.append(shift(step.stamps, np.round(np.interp(asked, grid, path)), grid, path)[1])
    return float(np.mean(found))


def swing(path: np.ndarray, rest: float) -> tuple[float, float]:
    """How far a path (counts) goes beyond where it rests, and then back below, degrees."""
    top = int(np.argmax(path))
    return tuple(math.degrees(abs(x - rest) * AX.position) for x in (path[top], path[top:].min()))


def left_out(fitted: tuple[str, ...], others: tuple[str, ...]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Paths of the other recordings by a fit to `fitted` alone, each at its own best moment."""

    def loaded(names: tuple[str, ...]) -> list:
        found = [import_log(STEPS / f"{name}.csv", servo="horn", goal=GivenGoal(500)) for name in names]
        bars = [f"{name}.csv={BAR}" for name in names if "LOAD2" in name]
        return loaded_with(bars, found)[0]

    base = packed(base_model(RIG, "ax12"), RIG)
    # what a torque is in N·m the data sheet says, and the gear's friction nothing here: as shipped. The play and the
    # friction behind it are fitted: what is shipped of these was found with all six
    space = space_of("ax12", "M1", base, unknown_command_times=True).without(HELD)
    runs = runs_of(loaded(fitted), RIG)
    points = []
    for share in (0.6, 0.8, 1.25, 1.6):  # points that do not know the answer: some end in worse minima
        start = base.copy()
        start[[Param.ARMATURE, Param.LAG, Param.DEAD_DUTY]] *= share
        points.append(polish(space, runs, space.point(start), rounds=15))
    row = space.sets(points[int(np.argmin(misfits(space, runs, np.array(points))))][None])[0]
    unseen = runs_of(loaded(others), RIG)
    path = 512 + predicted(row[None], unseen)[0] / AX.position
    return {
        name: (unseen.time[a:b], path[a:b])
        for name, a, b in zip(others, unseen.start[:-1], unseen.start[1:], strict=True)
    }


def main() -> None:
    """Draw and write."""
    recordings = {name: real(name) for name in FREE + LOADED}
    by_load = {
        (model, name): simulated(model, recordings[name].inertia)
        for model in ("ax12", "lima2009")
        for name in (FREE[0], LOADED[0])
    }
    cross = left_out(FREE, LOADED) | left_out(LOADED, FREE)
    heads = ("overshoot: real", "`ax12`", "left out", "`lima2009`", "back: real", "`ax12`", "left out", "RMSE: `ax12`")
    lines = ["| recording | " + " | ".join((*heads, "left out", "`lima2009`", "floor")) + " |", "|---" * 12 + "|"]
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), sharex=True, sharey=True)
    for panel, (name, step) in zip(axes.ravel(), recordings.items(), strict=True):
        first = FREE[0] if name in FREE else LOADED[0]
        ours, paper, other = by_load["ax12", first], by_load["lima2009", first], evenly(*cross[name])
        swings = [swing(step.counts, step.rest), *(swing(path, path[-1]) for _, path in (ours, other, paper))]
        (top, back), (our_top, our_back), (other_top, other_back), (paper_top, _) = swings
        errors = [shift(step.stamps, step.counts, *path)[1] for path in (ours, other, paper)]
        cells = [f"{x:.1f}°" for x in (top, our_top, other_top, paper_top, back, our_back, other_back)]
        cells += [f"{x:.2f}°" for x in (*errors, floor(step, *ours))]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        draw(
            panel, step, {"ax12 (fitted to all six)": ours, "fitted to the other load alone": other, "lima2009": paper}
        )
    axes[0, 0].legend(fontsize=7, loc="upper left")
    figure.supxlabel("time since the first motion, s")
    figure.supylabel("angle, degrees")
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "images" / "how_real.png", dpi=80)
    table = "\n".join(lines)
    print(table)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
    after = rest.partition("<!-- end -->")[2]
    PAGE.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->{after}", encoding="utf-8")


def evenly(times: np.ndarray, path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sampled path on an even grid that begins shortly before the motion."""
    began = times[np.flatnonzero(path > path[0] + 3)[0]] - 0.1
    grid = np.arange(0.0, min(1.2, times[-1] - began), FINE)
    return grid, np.interp(grid + began, times, path)


def draw(panel: plt.Axes, step: Step, paths: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """One recording, the paths beside it, and the end of the motion again, larger."""
    degrees = math.degrees(AX.position)
    inset = panel.inset_axes((0.45, 0.08, 0.52, 0.45))
    for axes in (panel, inset):
        axes.plot(step.times, (step.counts - 1) * degrees, "k.", markersize=4, label="real servo")
        for (label, (grid, path)), style in zip(paths.items(), ("C1-", "C0--", "C2:"), strict=True):
            late, _ = shift(step.times, step.counts, grid, path)
            axes.plot(grid - late, (path - 1) * degrees, style, linewidth=1.2, label=label)
    panel.set_title(step.name, fontsize=9)
    panel.set_xlim(-0.05, 0.7)
    panel.grid(visible=True, alpha=0.3)
    inset.set_xlim(0.34, 0.62)
    inset.set_ylim(138, 156)
    inset.tick_params(labelsize=6)


if __name__ == "__main__":
    main()
