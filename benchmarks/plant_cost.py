"""What a simulated step costs on both engines, over the bare engine, in turns in one process. Prints JSON.

`engines`: a Bioloid of 18 servos that stands on the floor. `bare_us` is one step of the same model without servos:
Bullet's `stepSimulation` with its own position motors; MuJoCo's `mj_step` with the torques, armatures and friction that
a controlled run had, put every 20 ms where the robot was then. `resting_us` is `mj_step` with joints that friction
holds: its solver needs one iteration, and two to three where the robot moves. `step_us` is `robot.step(20)`;
`controlled_us` adds 18 new goals and 18 positions read. The ratios are over all bare steps of 20 ms. Medians of turns
that last as long in simulated time, in processor time of this thread. `parts_us` says where a controlled step's time
goes, in turns of their own because the clocks cost time themselves: the engine's own functions, compiled kernels, and
`host`, all Python.

`growth_ms`: `step(40)` with new goals of independent pendulums on one base, by engine and number of servos. Bytes take
no time there: on a wire, 144 servos take longer than 40 ms to answer, and the simulation goes on meanwhile.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axbridge
from axbridge.config.rig import Rig
from axbridge.sim import bank
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import installed

STEPS = 12  # control steps of 20 ms a turn
EFFORT = {"numSolverIterations": 50, "solverResidualThreshold": 5e-4}  # what a robot asks Bullet for that stands
GROWTH = {"bullet": (1, 6, 18), "mujoco": (1, 6, 18, 36, 72, 144)}
Action = Callable[[], object]


def bare_bullet(rig: Rig) -> Action:
    """A step of the robot on Bullet's own position motors, solved as the robot's world is."""
    import pybullet

    from axbridge.sim.engines.bullet.engine import BulletEngine

    start = {servo.joint: servo.position for servo in rig.servos}
    world = BulletEngine(
        Scene(
            rig.urdf_path(), time_step=rig.world.time_step_ms / 1000, fixed_base=False, ground=True,
            base_height=rig.world.base_height, start=start,
        )
    )  # fmt: skip
    on = {"physicsClientId": world.client}
    pybullet.setPhysicsEngineParameter(**EFFORT, **on)
    goals, forces = world.state()[0].tolist(), [1.5] * len(world.links)
    pybullet.setJointMotorControlArray(world.body, world.links, pybullet.POSITION_CONTROL, goals, forces=forces, **on)
    return lambda: pybullet.stepSimulation(**on)


def resting_mujoco(engine: Any) -> Action:
    """A step of a copy of the robot's model, held by dry friction."""
    import mujoco

    model, data = copy.deepcopy(engine.model), copy.deepcopy(engine.data)
    model.dof_frictionloss[6:] = 10.0  # N·m
    return lambda: mujoco.mj_step(model, data)


def moving_mujoco(engine: Any, action: Action, per_step: int) -> Action:
    """A step of a copy of the robot's model that moves as the robot does in `action`, of `per_step` physics steps."""
    import mujoco

    def arrays(model: Any, data: Any) -> list[Any]:
        placed = [data.qpos, data.qvel, data.qacc_warmstart]
        return [data.qfrc_applied, model.dof_armature, model.dof_frictionloss, *placed]

    def recording(model: Any, data: Any) -> None:
        frames.append([array.copy() for array in arrays(model, data)])
        real(model, data)

    frames: list[list[Any]] = []
    real, mujoco.mj_fwdPosition = mujoco.mj_fwdPosition, recording
    timed(action, STEPS)
    mujoco.mj_fwdPosition = real
    model, data = copy.deepcopy(engine.model), copy.deepcopy(engine.data)
    copied, turns = arrays(model, data), itertools.cycle(enumerate(frames))

    def step() -> None:
        number, frame = next(turns)
        for array, value in zip(copied if number % per_step == 0 else copied[:3], frame, strict=False):
            array[:] = value
        mujoco.mj_step(model, data)

    return step


def clocked(engine: str) -> dict[str, list[tuple[Any, str]]]:
    """The functions of a step, as module and name."""
    if engine == "bullet":
        import pybullet

        from axbridge.sim.engines.bullet import ahead
        from axbridge.sim.engines.bullet import engine as module

        calls = ("getJointStates", "setJointMotorControlArray", "getContactPoints", "getBasePositionAndOrientation",
                 "getBaseVelocity")  # fmt: skip
        own = [(pybullet, name) for name in ("stepSimulation", *calls)]
        kernels = [
            (ahead, "run"),
            *((module, name) for name in ("joint_dynamics", "_begin", "_command_motors", "_take_over")),
        ]
    else:
        import mujoco

        from axbridge.sim.engines.mujoco import engine as module

        names = ("fwdPosition", "fwdVelocity", "fwdAcceleration", "fwdConstraint", "Euler")
        own = [(mujoco, f"mj_{name}") for name in names]
        kernels = [(module, "_end_and_begin"), (module, "_aim")]
    return {"engine": own, "kernels": [*kernels, (bank, "recall")]}


class Clock:
    """Adds up what functions of modules take."""

    def __init__(self, functions: list[tuple[Any, str]]) -> None:
        self.spent = 0.0
        self._real = [(module, name, getattr(module, name)) for module, name in functions]
        for module, name, function in self._real:
            setattr(module, name, self._wrapped(function))

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.spent += time.thread_time() - start

        return call

    def restore(self) -> None:
        """Put the functions back."""
        for module, name, function in self._real:
            setattr(module, name, function)


def timed(action: Action, count: int) -> float:
    """Processor time of one of `count` actions, s."""
    start = time.thread_time()
    for _ in range(count):
        action()
    return (time.thread_time() - start) / count


def parts(action: Action, functions: dict[str, list[tuple[Any, str]]], turns: int) -> dict[str, float]:
    """Where the time of an action goes, µs."""
    spent: dict[str, list[float]] = {}
    for _ in range(turns):
        clocks = {name: Clock(group) for name, group in functions.items()}
        whole = timed(action, STEPS)
        for name, clock in clocks.items():
            clock.restore()
            spent.setdefault(name, []).append(clock.spent / STEPS)
        spent.setdefault("host", []).append(whole - sum(clock.spent for clock in clocks.values()) / STEPS)
    return {name: round(statistics.median(figures) * 1e6, 1) for name, figures in spent.items()}


def standing(rig: Rig) -> axbridge.Robot:
    """The robot, on its feet."""
    robot = axbridge.open(rig, backend="sim")
    for servo in rig.servos:
        robot[servo.name].set_position(servo.position)
    robot.step(400)  # it has sunk while it was opened, and its joints take so long to their goals
    robot.simulation.place_base(robot.simulation.base_start)
    for _ in range(25):
        robot.step(20)
    height = robot.simulation.base[0][2]
    if height < 0.9 * robot.simulation.base_start[0][2]:
        raise SystemExit(f"the robot does not stand: its base is {height:.3f} m above the floor")
    return robot


def controlled(robot: axbridge.Robot, step_ms: float) -> Action:
    """A step of a controller that moves every servo a little, and reads every servo."""
    start = {servo: servo.target_position for servo in robot.values()}

    def step() -> list[float]:
        sway = 0.01 * math.sin(10 * robot.time)
        for servo, position in start.items():
            servo.set_position(position + sway)
        robot.step(step_ms)
        return [servo.position for servo in start]

    return step


def humanoid(name: str, turns: int) -> dict[str, Any]:
    """The row of one engine."""
    rig = Rig.load("bioloid").with_engine(name)
    with standing(rig) as robot:
        engine, per_step = robot.simulation.world.engine, round(20 / rig.physics_step_ms)
        actions: dict[str, Action] = {"step": lambda: robot.step(20), "controlled": controlled(robot, 20)}
        timed(actions["controlled"], STEPS)
        if name == "bullet":
            bare = {"bare": bare_bullet(rig)}
        else:
            bare = {"bare": moving_mujoco(engine, actions["controlled"], per_step), "resting": resting_mujoco(engine)}
        for bare_step in bare.values():
            timed(bare_step, 200)
        found: dict[str, list[float]] = {kind: [] for kind in (*bare, *actions)}
        for _ in range(turns):
            for kind, bare_step in bare.items():
                found[kind].append(timed(bare_step, STEPS * per_step))
            for kind, action in actions.items():
                found[kind].append(timed(action, STEPS))
        split = parts(actions["controlled"], clocked(name), turns)
    median = {kind: statistics.median(figures) for kind, figures in found.items()}
    return {
        **{f"{kind}_us": round(figure * 1e6, 1) for kind, figure in median.items()},
        "ratio": round(median["step"] / per_step / median["bare"], 3),
        "ratio_with_controller": round(median["controlled"] / per_step / median["bare"], 3),
        "parts_us": split,
    }


def pendulums(count: int, folder: Path) -> Rig:
    """A rig of so many AX-12A on one base, each with a bar."""
    joint = (
        '<joint name="j{0}" type="revolute"><parent link="base"/><child link="l{0}"/><origin xyz="{0} 0 0"/>'
        '<axis xyz="0 1 0"/><limit lower="-2.6" upper="2.6" effort="2" velocity="10"/></joint><link name="l{0}">'
        '<inertial><origin xyz="0 0 -0.05"/><mass value="0.05"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" '
        'ixz="0" iyz="0"/></inertial></link>\n'
    )
    (folder / "many.urdf").write_text(
        f'<robot name="many"><link name="base"/>\n{"".join(joint.format(k) for k in range(1, count + 1))}</robot>\n'
    )
    servo = '[[servo]]\nname = "j{0}"\njoint = "j{0}"\nid = {0}\nmodel = "ax12"\n'
    text = 'name = "many"\n[[bus]]\nbus_timing = "none"\n[world]\nurdf = "many.urdf"\ntime_step_ms = 1.0\n'
    (folder / "many.toml").write_text(text + "".join(servo.format(k) for k in range(1, count + 1)))
    return Rig.load(folder / "many.toml")


def growth(name: str, counts: tuple[int, ...]) -> dict[str, float]:
    """Ms of `step(40)` by the number of servos."""
    found = {}
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            rig = pendulums(count, Path(folder)).with_engine(name)
            with axbridge.open(rig, backend="sim") as robot:
                robot.set_positions(robot.positions)
                action = controlled(robot, 40)
                timed(action, 10)
                found[str(count)] = round(min(timed(action, 5) for _ in range(6)) * 1e3, 2)
    return found


def measure(turns: int, *, every: bool = True) -> dict[str, Any]:
    """All tables; without `every`, a Bioloid alone."""
    engines = {name: humanoid(name, turns) for name in installed()}
    if not every:
        return {"engines": engines}
    return {"engines": engines, "growth_ms": {name: growth(name, GROWTH[name]) for name in installed()}}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=20)
    print(json.dumps(measure(options.parse_args().turns), indent=2))


if __name__ == "__main__":
    main()
