"""Step 7: one servo steps, falls, and swings slowly; its model is given the same goals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from axbridge.bus.handshake import Finding
from axbridge.comparison.comparison import Comparison, compare
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.errors import BusError, UsageError
from axbridge.motion.experiment_run import ExperimentEnded, ExperimentRun
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.robot.robot import Robot
from axbridge.robot.twin.tolerance import allowance
from axbridge.verify.outcome import Measured

_SHARE = 0.5  # of the torque
_STEP, _SWING = math.radians(35), math.radians(20)
ENDS = -_SWING, _STEP  # between them the servo moves, rad
_APPROACH = 0.8  # s
_CYCLES = 2  # of the sine
_DRIVEN = "step", "sine"  # parts in which the motor says where the joint goes


def suited(rig: Rig, wanted: str | None = None) -> str:
    """The servo that such a motion does least harm to: of those that may go so far, the one that carries fewest links.

    Args:
        rig: The robot.
        wanted: Take this one.

    Raises:
        UsageError: it, or none of them, may go so far.
        RigError: the rig's URDF is wrong.
    """
    limits = ((servo, *servo.soft_limits) for servo in rig.servos if wanted in {None, servo.name})
    able = [servo for servo, low, high in limits if low <= ENDS[0] and ENDS[1] <= high]
    if not able:
        low, high = (math.degrees(end) for end in ENDS)
        who = f"servo {wanted} of rig {rig.name} does not go" if wanted else f"no servo of rig {rig.name} goes"
        raise UsageError(f"{who} from {low:.0f} to {high:.0f}°", "choose another, or leave the step motion out")
    if rig.world is None or wanted:
        return able[0].name
    tree = rig.tree()
    carried = [1] * len(tree.links)
    for link in range(len(tree.links) - 1, 0, -1):  # children come after their parents
        carried[tree.parent[link]] += carried[link]
    behind = {name: carried[link] for name, link in tree.moved.items()}
    return min(able, key=lambda servo: behind.get(servo.joint, len(tree.links))).name


def record_motion(
    rig: Rig, port: str | None, servo: str, path: Path, period: float, progress: Callable[[str, float], None]
) -> None:
    """Move one servo at half its torque, and record all; the others hold where they are.

    Args:
        rig: The robot; its motors are off in the end.
        port: Of it.
        servo: Which.
        path: Takes the recording.
        period: Of the sine, s; step and fall take half as long.
        progress: Told what is under way.

    Raises:
        BusError: a servo does not answer, or the port is lost.
        RigError: the robot stands as it cannot.
        RecordingError: the recording cannot be written.
    """
    facts = describe(rig, backend="real", experiment="step, fall, sine")
    with open_robot(rig, "real", port=port) as robot, Recorder(path, facts) as recorder, robot:
        try:
            conduct(robot, servo, recorder, period, progress)
        except ExperimentEnded as stopped:
            raise BusError("the robot was closed under way", "do this step again") from stopped


def look_at_motion(rig: Rig, comparison: Comparison, path: Path) -> Measured:
    """How far a servo is from its model, in the `compared` recording at `path`."""
    (pair,) = comparison.pairs
    servo = next(one for one in rig.servos if one.name == pair.name)
    apart = {part.kind: part.deviation.rmse for part in pair.parts if part.kind in {*_DRIVEN, "fall"}}
    about: dict[str, Any] = {"servo": pair.name, "model": rig.model_of(servo).name, "rmse_deg": apart}
    listed = ", ".join(f"{kind} {rmse:.2f}° RMS" for kind, rmse in apart.items())
    lines = [f"{pair.name} beside its model {about['model']}: {listed} apart"]
    return Measured(about, lines, judge_motion(rig, about, path))


def conduct(
    robot: Robot, servo: str, recorder: Recorder, period: float,
    progress: Callable[[str, float], None] = lambda _part, _share: None,
) -> None:  # fmt: skip
    """The motion itself; see `record_motion`.

    Raises:
        Stopped: the robot was closed.
        BusError: a servo does not answer, or the port is lost.
        RecordingError: the recording cannot be written.
    """
    for one in robot.values():
        one.set_available_torque(_SHARE * one.max_torque)
        one.torque_on()  # where it is
    with RobotRecorder(robot, recorder) as log:
        run = ExperimentRun(robot, log, [servo], robot.basic_time_step, progress)
        arm = run.servos[servo]
        arm.driven = True

        def approach() -> None:
            arm.goal(robot[servo].position)
            begin = robot[servo].position
            run.segment(
                "approach", _APPROACH, lambda t: arm.goal(begin * (1 - min(1.0, t / _APPROACH))), kind="approach"
            )

        approach()
        run.segment("rest", 0.3, kind="rest")
        arm.goal(_STEP)
        run.segment(f"step to {math.degrees(_STEP):.0f}°", period / 2, kind="step", start=0.0, target=_STEP)
        arm.let_go()
        run.segment(f"fall from {math.degrees(_STEP):.0f}°", period / 2, kind="fall", start=_STEP)
        approach()
        run.segment("sine", _CYCLES * period, lambda t: arm.goal(_SWING * math.sin(math.tau * t / period)), kind="sine")


def compared(path: Path, rig: Rig, servo: str) -> Comparison:
    """A recording of `record_motion` beside the simulation of it: hands hold the robot upright, in the air.

    Raises:
        RecordingError, RigError: it cannot be simulated.
    """
    recording = open_recording(path)
    held = rig if rig.world is None else rig.overridden({"world": {"fixed_base": True, "ground": False}})
    return compare(
        replace(recording, tracks={servo: recording[servo]}),
        simulate(recording, held),
        labels=("measured", "simulated"),
    )


def judge_motion(rig: Rig, about: dict[str, Any], path: Path) -> list[Finding]:
    """Whether a servo does what its model says, as well as the model claims.

    A fall is reported and not judged: friction holds a light joint, or just does not.
    """
    servo = next(one for one in rig.servos if one.name == about["servo"])
    allowed = math.degrees(allowance(rig, servo, rig.model_of(servo)).wrong)
    apart = math.sqrt(sum(about["rmse_deg"][kind] ** 2 for kind in _DRIVEN) / len(_DRIVEN))
    if apart <= allowed:
        return []
    problem = f"is {apart:.1f}° RMS away from what its model {about['model']} does; {allowed:.1f}° are within its word"
    fix = (
        f"look what it carries, and what holds it; if nothing does, identify it: axbridge identify {path} "
        f"--rig {rig.path} --servo {servo.name} --model ax12 --out {servo.name}.toml"
    )
    return [Finding(f"{servo.name} (id {servo.id})", problem, fix, False, "model", servo.id)]
