"""Before a whole real robot moves, its servos must report a pose that its rig allows."""

import math

import pytest

import axbridge
from axbridge.cli.app import MISUSE, run
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning, RigError
from axbridge.robot.pose_check import impossible
from tests.support.pty_line import PtyLine
from tests.support.waiting import until

BIOLOID = Rig.load("bioloid")
LIMITS = {servo.name: servo.soft_limits for servo in BIOLOID.servos}
STANDING = {servo.name: servo.position for servo in BIOLOID.servos}


def beyond(name, degrees):
    """Return a pose with one joint beyond its upper limit by these degrees, or below its lower one if negative."""
    return STANDING | {name: LIMITS[name][degrees > 0] + math.radians(degrees)}


def counts(rig, pose):
    """Return Present Position by id."""
    return {servo.id: rig.specs[servo.name].calibration.goal(pose[servo.name]) for servo in rig.servos}


@pytest.fixture
def line(tmp_path):
    with PtyLine(range(1, 19), link=tmp_path / "bus") as line:
        stand(line, STANDING)
        yield line


def stand(line, pose):
    for id_, count in counts(BIOLOID, pose).items():
        line.tables[id_][36:38] = line.tables[id_][30:32] = count.to_bytes(2, "little")


def moved(line, pose):
    """Return the servos whose goal differs from their position, and those with torque."""
    goals = {id_: int.from_bytes(line.tables[id_][30:32], "little") for id_ in line.tables}
    return [id_ for id_, count in counts(BIOLOID, pose).items() if goals[id_] != count], line.powered


def test_an_arm_may_hang_a_little_beyond_its_limit_but_no_more_than_ten_degrees():
    assert impossible(BIOLOID, STANDING, LIMITS) == {}
    assert impossible(BIOLOID, beyond("left_elbow", 9.5), LIMITS) == {}
    assert impossible(BIOLOID, STANDING | {"left_elbow": math.nan}, LIMITS) == {}
    limit = math.degrees(LIMITS["left_elbow"][1])
    message = f"stands at {limit + 11:.0f}°, 11° beyond its limit of {limit:.0f}°"
    assert impossible(BIOLOID, beyond("left_elbow", 11), LIMITS) == {"left_elbow": message}


def test_two_feet_cannot_be_in_the_same_place():
    inwards = {"right_hip_lateral": 0.3, "left_hip_lateral": -0.3}
    ((names, reason),) = impossible(BIOLOID, STANDING | inwards, LIMITS).items()
    assert "right_ankle_lateral" in names
    assert reason == "would have their feet in the same place"
    ahead = {"left_hip_swing": 0.6, "right_hip_swing": -0.6}  # one before the other, they may cross
    assert impossible(BIOLOID, STANDING | inwards | ahead, LIMITS) == {}


@pytest.mark.slow
@pytest.mark.parametrize("verb", [["walk"], ["play", "sample:bow"]], ids=lambda verb: verb[0])
def test_a_verb_that_moves_the_whole_robot_is_refused_in_an_impossible_pose(line, verb, capsys):
    pose = beyond("left_knee", -15)
    stand(line, pose)
    with pytest.warns(ControlWarning, match="'left_knee' .* beyond its limit"):
        assert run([*verb, "--rig", "bioloid", "--backend", "real", "--port", line.port]) == MISUSE
    errors = capsys.readouterr().err
    words = (
        "left_knee stands at",
        "nothing has moved, and all motors are off",
        f"`axbridge verify --rig {BIOLOID.path} --port {line.port}`",
        f"`axbridge rig copy bioloid my_bioloid && axbridge calibrate --rig my_bioloid --port {line.port}`",
    )
    assert [word for word in words if word not in errors] == []
    assert moved(line, pose) == ([], [])


@pytest.mark.slow
def test_goto_of_the_whole_robot_is_refused_but_not_that_of_one_joint(line):
    pose = beyond("left_knee", -15)
    stand(line, pose)
    with axbridge.open("bioloid", backend="real", port=line.port) as robot:
        with pytest.raises(RigError, match="left_knee stands at"), pytest.warns(ControlWarning):
            robot.goto(STANDING, 1.0)
        assert moved(line, pose) == ([], [])
        robot["right_elbow"].goto(0.1, 0.1)
        assert line.powered == [BIOLOID.servos[list(STANDING).index("right_elbow")].id]


@pytest.mark.slow
def test_the_pose_is_checked_again_after_motors_were_limp(line):
    with axbridge.open("bioloid", backend="real", port=line.port) as robot:
        robot.goto(STANDING, 1.0)
        for servo in robot.values():
            servo.torque_off()
        robot.step()
        stand(line, beyond("right_elbow", 20))
        robot.step()
        with pytest.raises(RigError, match="right_elbow stands at"), pytest.warns(ControlWarning):
            robot.goto(STANDING, 1.0)


@pytest.mark.slow
def test_the_pose_is_checked_again_after_a_change_of_backend(line):
    with PtyLine(range(1, 19)) as other, axbridge.open("bioloid", backend="real", port=line.port) as robot:
        robot.set_positions(list(STANDING.values()))
        robot.step()
        stand(other, beyond("right_elbow", 20))
        with pytest.warns(ControlWarning, match="beyond its limit"):
            robot.switch("real", port=other.port)
        with pytest.raises(RigError, match="right_elbow stands at"):
            robot.step()
        assert other.powered == []


@pytest.mark.slow
def test_the_page_reports_the_impossible_pose_and_keeps_running(line, tmp_path, monkeypatch):
    pytest.importorskip("websockets")
    monkeypatch.chdir(tmp_path)
    stand(line, beyond("left_knee", -15))
    with axbridge.open("bioloid", backend="real", port=line.port) as robot, robot.view(port=0, open=False) as page:
        page.requests.ask("torque", lambda: page.actions.torque(list(robot), on=True))
        until(lambda: page.run(0.1) or "left_knee stands at" in page.message[0], 20.0)
        start = robot.time
        page.run(0.1)
        assert robot.time > start
        assert line.powered == []
