"""Draw the figures of docs/physics.md: those of Lima et al. 2009 (5, 7, 9, 11, 12), and the walk's, from this code.

`--tutorial` makes the pictures of docs/tutorial.md instead, by its own commands, with a virtual AX-12 on a
pseudo-terminal: some six minutes, on a machine that does nothing else.

There are no raw data of the paper's real servo; where the paper compares with it, the `ax12` model stands in.
"""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image

mpl.use("Agg")
from matplotlib import pyplot as plt

from axbridge.comparison.recorded_runs import packed
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.servo.columns import Command, Mode, Param, Passive, State
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engines.pendulums import Pendulums
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import FREE, JOINT_MODE, Runs
from axbridge.testing import serve
from axbridge.virtual.assembly import build_bank

OUT = Path(__file__).resolve().parents[1] / "docs" / "figures"
WIDE = 1000  # pixels, of the tutorial's pictures
RIG = Rig.load("bench_arm")
INERTIA, WEIGHT, SUPPLY = 7.2e-4, 0.081, 9.6


def motion(model: str, goal: float | None, start: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, s, and angles, deg, of the bench arm in PyBullet; goal None = torque off. rad."""
    servos = (RIG.servos[0].model_copy(update={"position": start}),)
    bank = build_bank(RIG.model_copy(update={"servos": servos}).with_model(model))
    count = math.radians(300 / 1023)
    row = np.zeros(len(Command))
    row[Command.TORQUE_LIMIT] = 1
    row[[Command.MARGIN_CW, Command.MARGIN_CCW]] = count
    row[[Command.SLOPE_CW, Command.SLOPE_CCW]] = 32 * count
    row[Command.PUNCH] = 32 / 1023
    if goal is not None:
        row[[Command.TORQUE, Command.GOAL]] = 1, goal
    bank.set_command(0, row, 0.0)
    times, angles = [0.0], [start]
    while bank.time < seconds:
        bank.advance(bank.time + 1.001e-3)
        times.append(bank.time)
        angles.append(float(bank.state[0, State.ANGLE]))
    bank.close()
    return np.array(times), np.degrees(angles)


def figure_5() -> None:
    """Back-EMF over speed."""
    model = ServoModel.load("lima2009", FirmwareProfile.load("ax-12a"))
    speeds = np.linspace(0, 1600, 13)
    plt.plot(speeds, speeds * model.motor.torque_constant, "o-")
    plt.xlabel("speed of the motor shaft, rad/s")
    plt.ylabel("open-circuit voltage, V")
    plt.title("Figure 5: back-EMF, Ks = 0.006810 V·s/rad at the motor")
    save("figure05_back_emf")


def figure_7() -> None:
    """Friction torque over speed."""
    speeds = np.array([-6.0, -1e-9, 1e-9, 6.0])
    for name in ("lima2009", "ax12"):
        friction = ServoModel.load(name, FirmwareProfile.load("ax-12a")).friction
        dry = friction.coulomb + friction.output
        plt.plot(speeds, dry * np.sign(speeds) + friction.viscous * speeds, label=name)
    plt.xlabel("speed of the output shaft, rad/s")
    plt.ylabel("friction torque, N·m")
    plt.title("Figure 7: friction, Fc·sign(ω) + Bv·ω")
    plt.legend()
    save("figure07_friction")


def figure_9() -> None:
    """Falls from 45, 90 and 135 degrees, torque off."""
    for name, color in (("lima2009", "C0"), ("ax12", "C1")):
        for start in (45, 90, 135):
            times, angles = motion(name, None, math.radians(start), 1.2)
            plt.plot(times, angles, color=color, label=name if start == 45 else None)
    plt.yticks(range(0, 136, 45))
    plt.xlabel("time, s")
    plt.ylabel("angle, deg")
    plt.title("Figure 9: the arm falls from 45, 90 and 135°, torque off")
    plt.legend()
    save("figure09_falls")


def figure_11() -> None:
    """Squared error of the step response over both gains, against a recording of the same servo at (30, -1.2)."""
    times = np.arange(0, 0.8, 0.01)
    flat, one = np.zeros_like(times), np.ones(1)
    runs = Runs(
        start=np.array([0, len(times)]),
        time=times,
        sent=times,
        goal=flat + math.pi / 2,
        driven=flat + 1,
        speed_limit=flat,
        duty=flat + JOINT_MODE,
        cap=flat + 1,
        position=flat,
        velocity=flat,
        supply=SUPPLY * one,
        inertia=INERTIA * one,
        gravity=WEIGHT * one,
        phase=0 * one,
        temperature=np.nan * one,
        passive=FREE[None],
        settings=np.zeros((1, len(Command))),
    )
    base = packed(RIG.specs[RIG.servos[0].name].load_model("lima2009"), RIG)
    true = rollouts(base[None], runs)[0]
    k_theta, k_omega = np.linspace(15, 45, 61), np.linspace(-1.6, 0.4, 61)
    sets = np.tile(base, (61 * 61, 1))
    sets[:, Param.K_THETA], sets[:, Param.K_OMEGA] = (axis.ravel() for axis in np.meshgrid(k_theta, k_omega))
    error = np.mean(np.degrees(rollouts(sets, runs) - true) ** 2, axis=1).reshape(61, 61)
    levels = np.logspace(-2, 1.75, 16)
    drawn = plt.contourf(k_theta, k_omega, np.clip(error, levels[0], levels[-1]), levels, norm="log")
    plt.plot(30, -1.2, "w+", markersize=12)
    plt.colorbar(drawn, label="mean squared error, deg²", ticks=[0.01, 0.1, 1, 10], format="%g")
    plt.xlabel("Kθ, V/rad")
    plt.ylabel("Kω, V·s/rad")
    plt.title("Figure 11: error of the 0→90° step over both gains")
    save("figure11_gains")


def figure_12() -> None:
    """Step response."""
    plt.axhline(90, color="grey", linewidth=0.8, linestyle=":")
    for name in ("lima2009", "lima2009-strict", "ax12"):
        plt.plot(*motion(name, math.pi / 2, 0.0, 1.0), label=name)
    plt.xlabel("time, s")
    plt.ylabel("angle, deg")
    plt.yticks(range(0, 91, 15))
    plt.title("Figure 12: a step from 0 to 90° at 9.6 V")
    plt.legend()
    save("figure12_step")


def at_full_duty(name: str, supply: float, mass: float, stop: float) -> np.ndarray:
    """State of a simulated servo after 0.9 s of full duty, with a 0.1 m arm and a hard stop at `stop`, rad."""
    profile = FirmwareProfile.load("ax-12a")
    servo = BankServo("shaft", ServoModel.load(name, profile), 1, profile.units.position, 0)
    bank = ServoBank(Pendulums(["shaft"], time_step=1e-3, mass=mass), [servo], [supply])
    bank.passive[0, Passive.HIGH] = stop
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.MODE, Command.DUTY]] = 1, 1, Mode.WHEEL_DUTY, 1
    bank.set_command(0, row, 0.0)
    bank.advance(0.9)
    return bank.state[0]


def data_sheet() -> str:
    """The data sheet's figures as simulated: rows of a table for docs/physics.md."""
    lines = [
        "| V | no-load, rpm: lima2009 | ax12 | sheet | stall, A | sheet | stall, N·m: lima2009 | ax12 | sheet |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    # at 12 V the AX-12A's e-manual; at 7 and 10 V the AX-12's manual of 2006: s for 60 degrees, and kgf·cm
    known = {
        7.0: (f"{10 / 0.269:.0f}", "", f"{12 * 0.0980665:.2f}"),
        9.6: ("", "", ""),
        10.0: (f"{10 / 0.196:.0f}", "", f"{16.5 * 0.0980665:.2f}"),
        11.1: ("", "", ""),
        12.0: ("59", "1.5", "1.5"),
    }
    for supply, (rpm, ampere, torque) in known.items():
        free = [at_full_duty(name, supply, 1e-4, math.inf) for name in ("lima2009", "ax12")]
        held = [at_full_duty(name, supply, 0.05, 0.1) for name in ("lima2009", "ax12")]
        speeds = [f"{state[State.SPEED] * 30 / math.pi:.1f}" for state in free]
        torques = [f"{state[State.TORQUE]:.2f}" for state in held]
        cells = [f"{supply:g}", *speeds, rpm, f"{held[0][State.CURRENT]:.2f}", ampere, *torques, torque]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def zero_moment_point() -> None:
    """Where the floor's push acts in a walk, beside the plan, in both engines; docs/walking.md."""
    panels = plt.figure().subplots(2, 1, sharex=True)
    for engine, color in (("bullet", "C0"), ("mujoco", "C1")):
        rig = Rig.load("bioloid").overridden({"world": {"engine": engine}})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "walk.mcap")
            with (
                Recorder(path, describe(rig, backend="sim", seed=0, experiment="walk")) as recorder,
                open_robot(rig, "sim") as robot,
            ):
                walk(robot, Gait(steps=4), recorder)
            recording = open_recording(path)
            cycles, start = recording.cycles, recording.segments[2].start
            now = cycles["time"] - start
            during = (now > 0) & (recording.segments[2].end - start > now)
            if engine == "bullet":
                panels[0].plot(now[during], 100 * cycles["planned_zmp_y"][during], "k--", label="planned")
            panels[0].plot(now[during], 100 * cycles["zmp_y"][during], color, linewidth=0.8, label=engine)
            panels[1].plot(now[during], 100 * cycles["zmp_margin"][during], color, linewidth=0.8)
    panels[0].set_ylabel("ZMP to the left, cm")
    panels[0].legend(loc="upper right", fontsize="small")
    panels[1].set_ylabel("margin, cm")
    panels[1].set_xlabel("s")
    panels[0].grid(visible=True, alpha=0.3)
    save("walk_zmp")


def tutorial() -> None:
    """Type the commands of the page, and keep the pictures they make."""
    page = (OUT.parent / "tutorial.md").read_text(encoding="utf-8").replace("\\\n", " ")
    typed = [line[2:] for line in page.splitlines() if line.startswith("$ axbridge ")]
    with tempfile.TemporaryDirectory() as folder, serve("bench_arm", timing="wire", engine=None) as bus:
        for line in typed:
            command = line.replace("/dev/ttyUSB0", bus.port).replace("axbridge", f"{sys.executable} -m axbridge", 1)
            subprocess.run(shlex.split(command), cwd=folder, check=True)
        for picture in Path(folder).glob("*.png"):
            with Image.open(picture) as drawn:
                small = drawn.convert("RGB").resize((WIDE, round(drawn.height * WIDE / drawn.width)), Image.LANCZOS)
            small.quantize(128).save(OUT.parent / "images" / f"tutorial_{picture.name}", optimize=True)


def save(name: str) -> None:
    """Write the current figure and clear it."""
    plt.gcf().set_size_inches(6, 4)
    plt.grid(visible=True, alpha=0.3)
    plt.tight_layout()
    plt.savefig(OUT / f"{name}.png", dpi=90)
    plt.close()


FIGURES = (figure_5, figure_7, figure_9, figure_11, figure_12, zero_moment_point)


def main() -> None:
    """Draw all."""
    if "--tutorial" in sys.argv[1:]:
        tutorial()
        return
    OUT.mkdir(parents=True, exist_ok=True)
    page = OUT.parent / "physics.md"
    if page.exists():
        before, _, rest = page.read_text(encoding="utf-8").partition("<!-- table -->\n")
        after = rest.partition("<!-- end -->")[2]
        page.write_text(f"{before}<!-- table -->\n{data_sheet()}\n<!-- end -->{after}", encoding="utf-8")
    for draw in FIGURES:
        draw()


if __name__ == "__main__":
    main()
