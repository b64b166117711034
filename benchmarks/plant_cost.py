"""What a simulated humanoid costs: `robot.step` over the bare engine, in turns in one process. Prints JSON.

`ratio` is the time of `robot.step` (bus, registers, firmware, motors, coupling, physics) over `stepSimulation`
of the same robot standing on Bullet's position motors, both per physics step: medians of turns that last as long in
simulated time, in processor time of this thread. `untimed` is the same robot with `bus_timing = "none"`;
`with_controller` adds 18 new goals and 18 states read in every step. `parts` says where a step's time goes, measured in
turns of their own because the clocks cost time themselves; `host` is all Python: drives, cycle, bus, line, registers.
`without` says how many times as long a controller's step takes when one short cut is switched off: reading ahead
(`Line.foresee`), goals straight to the motors.
"""

import argparse
import json
import math
import statistics
import time
from unittest.mock import patch

import pybullet

import axbridge
import axbridge.sim.engines.bullet.ahead
import axbridge.sim.engines.bullet.engine
from axbridge.config.rig import Rig
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.engine import BulletEngine
from axbridge.virtual.ax_firmware import AxFirmware
from axbridge.virtual.line import Line

STEPS = 12  # control steps of 20 ms a turn
ENGINE = ("getJointStates", "setJointMotorControlArray", "getContactPoints", "getBasePositionAndOrientation",
          "getBaseVelocity")  # fmt: skip
KERNELS = {
    axbridge.sim.engines.bullet.ahead: ("run",),
    axbridge.sim.engines.bullet.engine: ("joint_dynamics", "_begin", "_ask", "_take_over"),
}
EFFORT = {"numSolverIterations": 50, "solverResidualThreshold": 5e-4}  # what a robot asks for that stands


def bare_world(rig):
    """The rig's robot in its standing pose on Bullet's own position motors, solved as the robot's world is."""
    world = BulletEngine(
        Scene(
            rig.urdf_path(),
            time_step=rig.world.time_step_ms / 1000,
            fixed_base=False,
            ground=True,
            base_height=rig.world.base_height,
            start={servo.joint: servo.position for servo in rig.servos},
        )
    )
    on = {"physicsClientId": world.client}
    pybullet.setPhysicsEngineParameter(**EFFORT, **on)
    goals = world.state()[0].tolist()
    pybullet.setJointMotorControlArray(
        world.body, world.links, pybullet.POSITION_CONTROL, goals, forces=[1.5] * len(world.links), **on
    )
    return world, lambda: pybullet.stepSimulation(**on)


def standing(rig):
    """The robot, on its feet."""
    robot = axbridge.open(rig)
    for servo in rig.servos:
        robot[servo.name].set_position(servo.position)
    robot.step(20)
    robot.simulation.place_base(robot.simulation.base_start)  # it has sunk before its motors were on
    for _ in range(25):
        robot.step(20)
    height = robot.simulation.base[0][2]
    if height < 0.9 * robot.simulation.base_start[0][2]:
        raise SystemExit(f"the robot does not stand: its base is {height:.3f} m above the floor")
    return robot


def controlled(robot, rig):
    """A step of a controller that moves every servo a little, and reads every servo."""

    def step():
        sway = 0.01 * math.sin(10 * robot.time)
        for servo in rig.servos:
            robot[servo.name].set_position(servo.position + sway)
        robot.step(20)
        return [servo.position for servo in robot.values()]

    return step


def timed(action, count):
    """Processor time of one of `count` actions, s."""
    start = time.thread_time()
    for _ in range(count):
        action()
    return (time.thread_time() - start) / count


class Clock:
    """Adds up what the functions of a module take."""

    def __init__(self, module, names):
        self.spent = 0.0
        self.module, self.real = module, {name: getattr(module, name) for name in names}
        for name, function in self.real.items():
            setattr(module, name, self.wrapped(function))

    def wrapped(self, function):
        def call(*args, **options):
            start = time.thread_time()
            try:
                return function(*args, **options)
            finally:
                self.spent += time.thread_time() - start

        return call

    def restore(self):
        for name, function in self.real.items():
            setattr(self.module, name, function)


def parts(robot, turns):
    """Where the time of `robot.step` goes, µs a step."""
    found = []
    for _ in range(turns):
        clocks = {
            "engine_step": [Clock(pybullet, ["stepSimulation"])],
            "engine_calls": [Clock(pybullet, ENGINE)],
            "kernels": [Clock(module, names) for module, names in KERNELS.items()],
        }
        start = time.thread_time()
        for _ in range(STEPS):
            robot.step(20)
        whole = time.thread_time() - start
        spent = {name: sum(clock.spent for clock in group) for name, group in clocks.items()}
        for group in clocks.values():
            for clock in group:
                clock.restore()
        found.append({**spent, "host": whole - sum(spent.values())})
    return {name: round(statistics.median(one[name] for one in found) / STEPS * 1e6, 1) for name in found[0]}


def without(action, turns):
    """How many times as long `action` takes without each of the short cuts."""
    short_cuts = {
        "reading_ahead": [patch.object(Line, "foresee", lambda *_: [])],
        "goals_straight_to_the_motors": [patch.object(AxFirmware, "aim", lambda *_: None)],
    }
    ratios = {name: [] for name in short_cuts}
    for _ in range(turns):
        whole = timed(action, STEPS)
        for name, patches in short_cuts.items():
            for one in patches:
                one.start()
            ratios[name].append(timed(action, STEPS) / whole)
            for one in patches:
                one.stop()
    return {name: round(statistics.median(found), 2) for name, found in ratios.items()}


def compare(bare_step, action, turns, per_step):
    """Medians, s: of a bare physics step and of a control step, in turns."""
    bare, full = [], []
    for _ in range(turns):
        bare.append(timed(bare_step, round(STEPS * per_step)))
        full.append(timed(action, STEPS))
    return statistics.median(bare), statistics.median(full)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=40)
    turns = options.parse_args().turns
    rig = Rig.load("bioloid")
    free = [bus.model_copy(update={"bus_timing": "none"}) for bus in rig.buses]
    per_step = 20 / rig.world.time_step_ms
    world, bare_step = bare_world(rig)
    timed(bare_step, 200)
    with standing(rig) as robot:
        bare, step = compare(bare_step, lambda: robot.step(20), turns, per_step)
        bare_too, controlled_step = compare(bare_step, controlled(robot, rig), turns, per_step)
        found = parts(robot, turns)
        missing = without(controlled(robot, rig), turns)
    with standing(rig.model_copy(update={"buses": tuple(free)})) as untimed:
        bare_again, untimed_step = compare(bare_step, lambda: untimed.step(20), turns, per_step)
    document = {
        "bare_step_us": round(bare * 1e6, 1),
        "robot_step_us": round(step * 1e6, 1),
        "robot_step_per_physics_step_us": round(step / per_step * 1e6, 1),
        "ratio": round(step / per_step / bare, 3),
        "ratio_with_controller": round(controlled_step / per_step / bare_too, 3),
        "ratio_untimed": round(untimed_step / per_step / bare_again, 3),
        "times_real_time": round(0.020 / step, 2),
        "times_real_time_untimed": round(0.020 / untimed_step, 2),
        "parts_us_a_step": found,
        "without": missing,
    }
    print(json.dumps(document, indent=2))
    world.close()


if __name__ == "__main__":
    main()
