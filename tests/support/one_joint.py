"""An independent servo on a pendulum: the paper's equations handed to scipy, and URDFs to compare with."""

import math
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

from axbridge.servo.columns import Command, Passive
from axbridge.sim.bank import BankServo, ServoBank

R, L, K, BV, FC = 8.0, 5e-3, 0.006810 * 254, 0.01278, 1.71e-5
K_THETA, K_OMEGA = 30.0, -1.2
SUPPLY, GRAVITY = 9.6, 9.81  # V, m/s²


def paper_servo(inertia, weight_moment, *, armature=0.0, goal=None, start=0.0, duration=1.0, samples=200):
    """Angles (samples,) of equations (1)-(6) with voltage limit; goal None = torque off. rad, s, N·m."""

    def rates(_, y):
        angle, speed, current = y
        friction = FC * math.tanh(speed / 1e-4) + BV * speed
        if goal is None:
            return [speed, (-friction - weight_moment * math.sin(angle)) / (inertia + armature), 0.0]
        volts = min(max(K_THETA * (goal - angle) - K_OMEGA * speed, -SUPPLY), SUPPLY)
        torque = K * current - friction - weight_moment * math.sin(angle)
        return [speed, torque / (inertia + armature), (volts - K * speed - R * current) / L]

    times = np.linspace(0, duration, samples)
    solution = solve_ivp(rates, (0, duration), [start, 0.0, 0.0], "LSODA", times, rtol=1e-8, atol=1e-10, max_step=2e-4)
    return times, solution.y[0], solution.y[1]


def command(bank, *indices, **columns):
    """Command servos of a bank, all of them if none is named: powered, and these columns of `Command`."""
    row = np.zeros(len(Command))
    for name, value in {"TORQUE": 1, "TORQUE_LIMIT": 1, **columns}.items():
        row[Command[name]] = value
    for index in indices or range(len(bank.state)):
        bank.set_command(index, row, bank.time)


def factory(profile):
    """Columns that an AX has from the factory: of its position loop."""
    count = profile.units.position
    slopes, margins = (
        dict.fromkeys(("SLOPE_CW", "SLOPE_CCW"), 32 * count),
        dict.fromkeys(("MARGIN_CW", "MARGIN_CCW"), count),
    )
    return {**slopes, **margins, "PUNCH": 32 / 1023}


def order(bank, goal, index=0):
    """Tell a servo of a bank to go to `goal`, rad; None: to go limp."""
    command(bank, index, **({"TORQUE": 0} if goal is None else {"GOAL": goal}))


def servo_bank(engine, model, *joints, profile, supply=9.6):
    """Servos of one kind on these joints, or on all, on one supply, V."""
    count = profile.units.position
    return ServoBank(engine, [BankServo(joint, model, 1, count, 0) for joint in joints or engine.joints], [supply])


def watched(bank, duration):
    """Times (n,), positions and speeds (joints, n) of the next `duration` seconds, as they come out of each substep."""
    seen, end = [(bank.time, bank.positions.copy(), bank.speeds.copy())], bank.time + duration
    while bank.time < end - 1e-9:
        bank.advance(bank.time + 1.001e-3)
        seen.append((bank.time, bank.positions.copy(), bank.speeds.copy()))
    times, positions, speeds = zip(*seen, strict=True)
    return np.array(times), np.transpose(positions), np.transpose(speeds)


def left_alone(engine, seconds, spring=0.0):
    """Let an engine go on without servos; a spring (N·m/rad) may act on its joints."""
    bank = ServoBank(engine, [], [])
    bank.passive[:, Passive.SPRING] = spring
    bank.advance((round(seconds / engine.time_step) + 0.01) * engine.time_step)


def write_pendulum(path: Path, inertia: float, weight_moment: float) -> Path:
    """A URDF pendulum about y that hangs down at 0 rad: its inertia about the shaft and m·g·l are given."""
    mass = max(weight_moment / GRAVITY / 0.05, 1e-4)
    lever = weight_moment / GRAVITY / mass
    about_centre = inertia - mass * lever * lever
    if about_centre <= 0:  # a shorter, heavier one
        mass *= 4 * mass * lever * lever / inertia
        lever = weight_moment / GRAVITY / mass
        about_centre = inertia - mass * lever * lever
    path.write_text(f"""<robot name="pendulum">
  <link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="arm"><inertial><origin xyz="0 0 {-lever!r}"/><mass value="{mass!r}"/>
    <inertia ixx="{about_centre!r}" iyy="{about_centre!r}" izz="{about_centre!r}" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shaft" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 -1 0"/></joint>
</robot>""")
    return path
