"""Both engines side by side on the same worlds, with an independent reference where there is one.

Prints a table as Markdown, that of RESULTS.md. `--full` lets the robot stand for 30 s instead of 6, and fall 100 times
instead of 10.
"""

import argparse
import math
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import axbridge
from axbridge.comparison.recorded_runs import arm_of
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.urdf import read_shapes
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.servo.columns import Command, Mode, Passive
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import build_engine
from axbridge.virtual.assembly import build_bank
from tests.sim import test_backlash, test_bullet
from tests.support.one_joint import order, paper_servo, write_pendulum

ENGINES = ("bullet", "mujoco")
PROFILE = FirmwareProfile.load("ax-12a")
COUNT = PROFILE.units.position
FLOOR = -3.32  # deg: the lean at which the standing pose's energy is least, on the paper's servos
DUTY = 0.87  # of an ax12 that turns at about 5 rad/s on 11.1 V

CART = """<robot name="cart"><link name="base"><inertial><origin xyz="0 0 0.04"/><mass value="0.5"/>
<inertia ixx="3e-4" iyy="6.4e-4" izz="8.7e-4"/></inertial><contact><lateral_friction value="0"/></contact>
<collision><origin xyz="-0.05 0 0.01"/><geometry><sphere radius="0.01"/></geometry></collision></link>
{wheels}</robot>"""
CART_WHEEL = """<link name="{name}_link"><inertial><mass value="0.05"/><inertia ixx="2.2e-5" iyy="4e-5" izz="2.2e-5"/>
</inertial><collision><origin rpy="1.5707963 0 0"/><geometry><cylinder radius="0.04" length="0.02"/></geometry>
</collision></link><joint name="{name}" type="continuous"><parent link="base"/><child link="{name}_link"/>
<origin xyz="0.03 {y} 0.04"/><axis xyz="0 1 0"/></joint>"""
TURNTABLE = """<robot name="turntable"><link name="base"><inertial><mass value="1"/>
<inertia ixx="2e-3" iyy="2e-3" izz="3e-3"/></inertial>
<collision><geometry><box size="0.2 0.2 0.05"/></geometry></collision></link>
<link name="arm"><inertial><mass value="0.1"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3"/></inertial></link>
<joint name="shaft" type="continuous"><parent link="base"/><child link="arm"/><origin xyz="0 0 0.03"/>
<axis xyz="0 0 1"/></joint></robot>"""
INERTIA, SPRING, DAMPING = 1e-3, 0.2, 1e-3  # of the turntable's arm, kg·m², N·m/rad, N·m·s/rad


@dataclass
class Line:
    """One line of the table; figures are text, as they are printed."""

    what: str
    figures: dict[str, str]
    reference: str = ""


def goal_row(goal):
    """A command as the registers of an AX-12 from the factory would give it; None = torque off."""
    row = np.zeros(len(Command))
    row[[Command.MARGIN_CW, Command.MARGIN_CCW]] = COUNT
    row[[Command.SLOPE_CW, Command.SLOPE_CCW]] = 32 * COUNT
    row[Command.PUNCH], row[Command.TORQUE_LIMIT] = 32 / 1023, 1
    if goal is not None:
        row[[Command.TORQUE, Command.GOAL]] = 1, goal
    return row


def followed(bank, seconds):
    """Times and joint positions up to `seconds`, after each step of the engine."""
    step = 1.001 * bank.engine.time_step
    times, angles = [bank.time], [bank.positions.copy()]
    while bank.time < seconds - 1e-9:
        bank.advance(bank.time + step)
        times.append(bank.time)
        angles.append(bank.positions.copy())
    return np.array(times), np.array(angles)


def bench_arm(engine, goal, start):
    """Worst error of the bench arm against scipy, deg."""
    rig = Rig.load("bench_arm").with_engine(engine)
    servo = rig.servos[0].model_copy(update={"position": start})
    bank = build_bank(rig.model_copy(update={"servos": (servo,)}))
    bank.set_command(0, goal_row(goal), 0.0)
    times, angles = followed(bank, 1.0)
    bank.close()
    arm, armature = arm_of(rig, servo), rig.specs[servo.name].model.motor.armature
    found, truth, _ = paper_servo(
        arm.inertia, arm.gravity, armature=armature, goal=goal, start=start, duration=times[-1], samples=5000
    )
    return np.degrees(np.abs(angles[:, 0] - np.interp(times, found, truth)).max())


def chain(engine, folder):
    """Worst error of three servos in a row, with links as light as a foot, deg."""
    model = ServoModel.load("lima2009", PROFILE, {"motor": {"armature": 0.004}})
    world = build_engine(engine, Scene(test_bullet.write_chain(folder / "chain.urdf")))
    bank = ServoBank(world, [BankServo(f"j{k}", model, 1, COUNT, 0) for k in range(3)], [test_bullet.SUPPLY])
    for index, goal in enumerate(test_bullet.GOALS):
        order(bank, goal, index)
    times, angles = followed(bank, 1.0)
    bank.close()
    return np.degrees(np.abs(angles.T - test_bullet.truth(0.004, times)).max())


def backlash(engine, folder):
    """Root mean square error of a servo with half a degree of play that steps and swings, deg."""
    play, test_backlash.PLAY = test_backlash.PLAY, math.radians(0.5)
    try:
        urdf = write_pendulum(folder / "play.urdf", 7.2e-4, 0.081)
        bank = test_backlash.bank_on(build_engine(engine, Scene(urdf)), play=test_backlash.PLAY)
        order(bank, 1.5)
        times, angles = followed(bank, 0.8)
        bank.close()
        truth = test_backlash.two_bodies(7.2e-4, 0.081, 1.5, 0.0, times, gear=0.0, output=0.0)
    finally:
        test_backlash.PLAY = play
    return math.degrees(math.sqrt(np.mean((angles[:, 0] - truth) ** 2)))


def wheels(engine, folder, *, rolls):
    """How fast two ax12 wheels turn at a duty, on the floor or in the air, rad/s."""
    urdf = folder / "cart.urdf"
    sides = [CART_WHEEL.format(name=name, y=y) for name, y in (("left", 0.05), ("right", -0.05))]
    urdf.write_text(CART.format(wheels="".join(sides)))
    world = build_engine(engine, Scene(urdf, fixed_base=not rolls, ground=rolls, base_height=1e-4))
    model = ServoModel.load("ax12", PROFILE)
    bank = ServoBank(world, [BankServo(name, model, 1, COUNT, 0) for name in ("left", "right")], [11.1])
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.MODE, Command.DUTY]] = 1, 1, Mode.WHEEL_DUTY, DUTY
    for index in range(2):
        bank.set_command(index, row, 0.0)
    bank.advance(1.0)
    since, before = bank.time, bank.positions[0]
    bank.advance(2.0)
    speed = (bank.positions[0] - before) / (bank.time - since)
    bank.close()
    return speed


def spring(engine, folder):
    """Worst error of a spring and damper on a base that lies on the floor, deg; it swings 17 deg."""
    urdf = folder / "turntable.urdf"
    urdf.write_text(TURNTABLE)
    scene = Scene(urdf, fixed_base=False, ground=True, base_height=0.025, start={"shaft": 0.3})
    bank = ServoBank(build_engine(engine, scene), [], [11.1])
    bank.passive[0, [Passive.SPRING, Passive.DAMPING]] = SPRING, DAMPING
    times, angles = followed(bank, 1.0)
    bank.close()
    truth = solve_ivp(
        lambda _, y: [y[1], (-SPRING * y[0] - DAMPING * y[1]) / INERTIA], (0, times[-1]), [0.3, 0.0],
        t_eval=times, rtol=1e-9, atol=1e-12,
    ).y[0]  # fmt: skip
    return np.degrees(np.abs(angles[:, 0] - truth).max())


def humanoid(engine, model=None):
    """A Bioloid on its feet, and its rig."""
    rig = Rig.load("bioloid").with_engine(engine)
    return build_bank(rig.with_model(model)), rig


def send(bank, rig, angles=None):
    """Send every servo to its angle in the standing pose, or to these, rad."""
    for index, servo in enumerate(rig.servos):
        goal = servo.position if angles is None else angles[index]
        bank.set_command(index, goal_row(servo.direction * goal), bank.time)


def tilt(bank):
    """Roll and pitch of the torso, deg."""
    x, y, z, w = bank.engine.base()[1]
    return np.degrees([math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)), math.asin(2 * (w * y - z * x))])


def standing(engine, model, seconds):
    """Lean, deg, highest joint speed, rad/s, and µs of processor for each physics step while it stands."""
    bank, rig = humanoid(engine, model)
    send(bank, rig)
    bank.advance(3.0)
    began, fastest = time.process_time(), 0.0
    while bank.time < 3.0 + seconds:
        bank.advance(bank.time + 1.001 / 240)
        fastest = max(fastest, float(np.abs(bank.speeds).max()))
    spent = (time.process_time() - began) / (240 * seconds) * 1e6
    lean = float(tilt(bank)[1])
    bank.close()
    return lean, fastest, spent


def push(bank, impulse):
    """Push the torso for 1/240 s, N·s."""
    engine, force = bank.engine, np.array(impulse) * 240.0
    if hasattr(engine, "client"):
        import pybullet

        here = engine.base()[0]
        pybullet.applyExternalForce(
            engine.body, -1, force.tolist(), here, pybullet.WORLD_FRAME, physicsClientId=engine.client
        )
        bank.advance(bank.time + 1.001 / 240)
    else:
        engine.data.xfrc_applied[1, :3] = force
        bank.advance(bank.time + 1.001 / 240)
        engine.data.xfrc_applied[1, :3] = 0.0


def pushes(engine):
    """How many of four pushes of 0.1 N·s it stands."""
    stood = 0
    for impulse in ((0.1, 0, 0), (-0.1, 0, 0), (0, 0.1, 0), (0, -0.1, 0)):
        bank, rig = humanoid(engine)
        send(bank, rig)
        bank.advance(1.0)
        push(bank, impulse)
        bank.advance(3.0)
        stood += bool(np.abs(tilt(bank)).max() < 6)
        bank.close()
    return stood


def lowest(engine, shapes):
    """z of the lowest corner of a robot of boxes, m."""
    poses, found = engine.poses(), math.inf
    for shape in shapes:
        (_, _, z), (qx, qy, qz, qw) = poses[shape.link]
        up = np.array((2 * (qx * qz - qw * qy), 2 * (qy * qz + qw * qx), 1 - 2 * (qx * qx + qy * qy)))
        found = min(found, z + up @ shape.place - 0.5 * np.abs(up @ shape.turn) @ np.array(shape.size))
    return found


def fall(engine, seed, shapes):
    """Fall from 0.2 m in a random attitude into a random pose: s to rest, highest joint speed, deg past a stop."""
    random = np.random.default_rng(seed)
    attitude = random.normal(size=4)
    attitude = tuple(attitude / np.linalg.norm(attitude))
    bank, rig = humanoid(engine)
    angles = [random.uniform(*servo.soft_limits) for servo in rig.servos]
    bank.engine.place_base(((0, 0, 1), attitude))
    bank.engine.place_base(((0, 0, 1.2 - lowest(bank.engine, shapes)), attitude))
    send(bank, rig, angles)
    low, high = np.array(bank.engine.limits).T
    rest, fastest, past, place = math.inf, 0.0, 0.0, np.array(bank.engine.base()[0])
    while bank.time < 5.0:
        bank.advance(bank.time + 1.001 / 240)
        positions, speeds = bank.engine.state()
        fastest = max(fastest, speed := float(np.abs(speeds).max()))
        past = max(past, float(np.degrees(np.maximum(low - positions, positions - high)).max()))
        here = np.array(bank.engine.base()[0])
        moving = speed > 0.5 or np.linalg.norm(here - place) * 240 > 0.05
        place = here
        rest = math.inf if moving else min(rest, bank.time)
    bank.close()
    return rest, fastest, past


def falls(engine, count):
    """How many falls came to rest within 5 s, and what the worst of them saw."""
    rig = Rig.load("bioloid")
    shapes = read_shapes(rig.urdf_path(), "collision", rig.urdf_text())
    rest, fastest, past = zip(*(fall(engine, seed, shapes) for seed in range(count)), strict=True)
    calm = sum(one < 5 for one in rest)
    return f"{calm} of {count} ({np.median(rest):.2f} s); {max(fastest):.0f} rad/s; {max(past):.1f}°"


def walked(engine, model):
    """How far 12 steps lead, cm."""
    with axbridge.open("bioloid", engine=engine, model=model) as robot:
        return walk(robot, Gait(steps=12)).distance * 100


def standing_robots(rig):
    """A robot on its feet, with registers and packets, for each engine."""
    robots = {}
    for engine in ENGINES:
        robots[engine] = robot = axbridge.open(rig, engine=engine)
        for servo in rig.servos:
            robot[servo.name].set_position(servo.position)
        for _ in range(25):
            robot.step(20)
        robot.simulation.place_base(robot.simulation.base_start)  # it has sunk before its motors were on
        for _ in range(50):
            robot.step(20)
    return robots


def control_steps(turns):
    """µs of processor for `robot.step(20)`: standing, and with a controller that moves and reads every servo."""
    rig = Rig.load("bioloid")
    robots = standing_robots(rig)

    def controlled(robot):
        sway = 0.01 * math.sin(10 * robot.time)
        for servo in rig.servos:
            robot[servo.name].set_position(servo.position + sway)
        robot.step(20)
        return [servo.state.position for servo in robot.values()]

    found = []
    for action in (lambda robot: robot.step(20), controlled):
        spent = {engine: [] for engine in ENGINES}
        for _ in range(turns):
            for engine, robot in robots.items():
                began = time.thread_time()
                for _ in range(25):
                    action(robot)
                spent[engine].append((time.thread_time() - began) / 25 * 1e6)
        found.append({engine: float(np.median(times)) for engine, times in spent.items()})
    for robot in robots.values():
        robot.close()
    return found


def both(what, measure, form, reference=""):
    """A line of the table."""
    return Line(what, {engine: form.format(measure(engine)) for engine in ENGINES}, reference)


def lines(full, folder):
    """Every line of the table, as it is measured."""
    yield both("bench_arm steps to 90°: largest error", lambda e: bench_arm(e, math.pi / 2, 0.0), "{:.3f}°", "0, scipy")
    yield both("bench_arm falls from 90°: largest error", lambda e: bench_arm(e, None, 1.5), "{:.3f}°", "0, scipy")
    yield both("chain of three light links: largest error", lambda e: chain(e, folder), "{:.3f}°", "0, scipy")
    yield both("backlash of 0.5°: mean error of a step", lambda e: backlash(e, folder), "{:.3f}°", "0, two bodies")
    air = wheels("mujoco", folder, rolls=False)
    yield both("two wheels roll", lambda e: wheels(e, folder, rolls=True), "{:.2f} rad/s", f"{air:.2f} in the air")
    yield both("spring on a base that lies on the floor", lambda e: spring(e, folder), "{:.2f}°", "0, scipy")
    stand = {(e, m): standing(e, m, 30 if full else 6) for e in ENGINES for m in ("lima2009", "ax12")}
    for model, truth in (("lima2009", f"{FLOOR}°, statics"), ("ax12", "")):
        texts = {e: f"{stand[e, model][0]:.2f}°, {stand[e, model][1]:.3f} rad/s" for e in ENGINES}
        yield Line(f"Bioloid stands, `{model}`: lean, fastest joint", texts, truth)
    yield both("four pushes of 0.1 N·s: stands", pushes, "{}", "")
    count = 100 if full else 10
    yield both("falls at rest (median); fastest joint; past a stop", lambda e: falls(e, count), "{}", "all")
    planned = f"{Gait(steps=12).distance * 100:.0f} cm planned"
    for model in ("lima2009", "ax12"):
        yield both(
            f"walks 12 steps, `{model}`",
            lambda e, m=model: walked(e, m),
            "{:.1f} cm",
            planned,
        )
    texts = {e: f"{stand[e, 'lima2009'][2]:.0f} µs" for e in ENGINES}
    yield Line("a physics step (1/240 s) with loops and motors", texts)
    for what, spent in zip(("standing", "with a controller"), control_steps(40 if full else 12), strict=True):
        texts = {e: f"{spent[e]:.0f} µs, {20000 / spent[e]:.0f} × real time" for e in ENGINES}
        yield Line(f"`robot.step(20)` of the Bioloid, {what}", texts)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--full", action="store_true", help="100 falls, longer standing")
    full = options.parse_args().full
    print("| | Bullet | MuJoCo | independent |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(full, Path(folder)):
            print(
                f"| {line.what} | {line.figures['bullet']} | {line.figures['mujoco']} | {line.reference} |", flush=True
            )


if __name__ == "__main__":
    main()
