"""Motions end, or continue without a servo, when the servo is switched off or fails during them."""

import math
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge import BusError, Move, UsageError
from axbridge.motion.experiments import Options, conduct
from axbridge.motion.gait import Gait
from axbridge.motion.moves import Key, Page
from axbridge.motion.player import play
from axbridge.motion.teaching import soft
from axbridge.motion.walking import walk
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.robot.calibration import nudge
from axbridge.view.actions import Actions
from tests.support.waiting import run

POSE = {"pan": 0.4, "tilt": 1.0}
MOMENTS = np.arange(0, 2, 0.01)
SOURCE = Recording(Path("s.mcap"), {"horn": Track.of("horn", MOMENTS, command=np.sin(math.tau * MOMENTS))}, ())
MOVE = Move(pages={"1": Page(keys=(Key(positions=POSE, time=1.0), Key(positions={"tilt": -1.0}, time=1.0)))})


def taught(robot, stiffness):
    robot.goto(POSE, 0.5)
    with soft(robot, ["tilt"], stiffness):
        run(robot, 1.0)


def recorded(name):
    options = Options(angles=(1.0, 0.5), duties=(0.2, 0.5), duration=2.0, period=0.5, source=SOURCE)
    return lambda robot, recorder: conduct(name, robot, None, recorder, options)


COMMANDS = {  # (rig, time within the motion in s, motion)
    "goto": ("pan_tilt", 1.0, lambda robot, _: robot.goto(POSE, 1.5)),
    "play": ("pan_tilt", 1.0, lambda robot, _: play(robot, MOVE)),
    "page": ("pan_tilt", 0.5, lambda robot, _: [robot.step() for _ in Actions(robot).move_to(POSE, 1.5)]),
    "soft": ("pan_tilt", 1.0, lambda robot, _: taught(robot, 0.3)),
    "limp": ("pan_tilt", 1.0, lambda robot, _: taught(robot, 0.0)),
    "walk": ("bioloid", 3.0, lambda robot, _: walk(robot, Gait(steps=1))),
    **{name: ("bare_horn", 0.8, recorded(name)) for name in ("sine", "fall", "duty", "replay")},
}
ENDS = {
    "off": lambda _, servo: servo.torque_off(),
    "off and on": lambda _, servo: (servo.torque_off(), servo.torque_on()),
    "stopped and resumed": lambda robot, _: (robot.stop(), robot.resume()),
    "closed": lambda robot, _: robot.close(),
    "fault": lambda robot, servo: robot.simulation.inject(f"overload:{servo.config.id}@0s"),
    "without power": lambda robot, _: robot.simulation.inject("brownout:300ms@0s"),
    "missing": lambda robot, servo: robot.simulation.inject(f"dead:{servo.config.id}@0s"),
}
# These motions run with all ends, the others with one of three: all share the code that checks a motion.
EVERY_END = "goto", "play", "page", "duty"
ROWS = [
    row if row[0] in EVERY_END or number % 3 == 0 else pytest.param(*row, marks=pytest.mark.ci)
    for number, row in enumerate(product(COMMANDS, ENDS))
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
@pytest.mark.parametrize(("command", "end"), ROWS)
def test_a_servo_that_is_switched_off_during_a_motion_gets_no_more_goals(tmp_path, command, end):
    rig, begins, commanded = COMMANDS[command]
    with axbridge.open(rig) as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        servo, seen = robot[-1], []

        def look(*_):
            if robot.time >= begins - 1e-9:
                if not seen:
                    ENDS[end](robot, servo)
                if end == "fault" and servo.name in robot.withheld:
                    servo.recover()
                seen.append((servo.torque_enabled, servo.goals.position, servo.goals.duty))

        robot.observe(look)
        fails = command in {"play", "walk"} and end in {"fault", "missing", "without power"}
        with pytest.raises(BusError, match=rf"servo '\w+': {end}") if fails else suppress(UsageError, BusError):
            outcome = commanded(robot, recorder)
            assert command != "goto" or not outcome
            assert end != "closed" or not getattr(outcome, "whole", False)
        since = -1 if fails or end == "closed" else -3 if end == "without power" else 9  # detected within a few steps
        on, *goals = zip(*seen[since:], strict=True)
        assert end == "missing" or len(set(map(str, zip(*goals, strict=True)))) == 1
        if end in {"off", "stopped and resumed"}:
            assert not any((*on, servo.torque_enabled))
        if rig == "pan_tilt" and end in {"off", "off and on"}:
            assert robot["pan"].position == pytest.approx(0.4, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("silent", ["line", "program"])
@pytest.mark.parametrize(
    ("command", "most"),
    [("goto", 0.026), ("play", 0.076), ("page", 0.026), ("sine", 0.132), ("replay", 0.063), ("nudge", 0.011)],
)
def test_goals_wait_during_missing_replies_and_program_pauses(tmp_path, command, most, silent):
    nudged = "pan_tilt", 0.0, lambda robot, _: nudge(robot, "tilt")
    rig, begins, commanded = {**COMMANDS, "nudge": nudged}[command]
    with axbridge.open(rig) as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        goals = []

        def look(report, _):
            goals.extend([] if report.errors else [robot[-1].goals.position])
            under_way = 0.2 <= robot.time - begins < 0.5
            if silent == "line":
                robot.simulation.inject("drop=1" if under_way else "none")
            for _ in range(300 if silent == "program" and under_way else 0):
                robot[-1].read("id")

        robot.observe(look)
        commanded(robot, recorder)
    assert np.nanmax(np.abs(np.diff(goals))) <= most
