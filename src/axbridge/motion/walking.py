"""Walking: a gait on a robot, on any backend, watched, measured and recorded.

The robot gets up slowly: torque rises while the joints go to the first pose of the walk. A simulated robot is held up
meanwhile, as by a hand, and put on its feet; a real one is for you to hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.motion.gait import Foothold, Gait, Walk
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.robot.backend import SIMULATION
from axbridge.robot.robot import Robot
from axbridge.robot.sensors import ImuSample
from axbridge.robot.simulation import Simulation, hold_up
from axbridge.robot.watch import Watch
from axbridge.rotations import Vector, roll_pitch_yaw, turned
from axbridge.sim.body.kinematics import inside, soles_of

_STANDS = 0.5  # N: pressed with less, a foot carries nothing


class Soles:
    """The feet of a simulated robot that walks: the lowest faces of the boxes that they touch the floor with."""

    def __init__(self, simulation: Simulation) -> None:
        rig, engine = simulation.world.rig, simulation.engine
        assert engine is not None
        self._engine = engine
        tree = rig.tree(fixed_base=False)
        self.links = {side: tree.links[tree.moved[f"{side}_ankle_lateral"]] for side in ("left", "right")}
        corners = {tree.links[sole.link]: sole.corners.tolist() for sole in soles_of(rig, tree)}
        self._corners: dict[str, list[Vector]] = {link: corners.get(link, []) for link in self.links.values()}

    def support(self) -> tuple[float, float, float] | None:
        """The zero-moment point, m, in the world, and the way from there to the nearest edge of the soles that stand.

        That is below 0 outside, and NaN where a foot is no box. None while no foot stands.
        """
        contacts = self._engine.contacts()
        push = {link: sum(contact.force[2] for contact in contacts if contact.link == link) for link in self._corners}
        standing = [link for link, force in push.items() if force > _STANDS]
        if not standing:
            return None
        there = [contact for link in standing for contact in contacts if contact.link == link]
        weight = np.array([contact.force[2] for contact in there])
        points = np.array([contact.point[:2] for contact in there])
        x, y = (weight @ points / weight.sum()).tolist()
        known = all(self._corners[link] for link in standing)
        corners = np.concatenate([self._outline(link) for link in standing]) if known else None
        return x, y, math.nan if corners is None else inside((x, y), corners)

    def planned(self, walk: Walk, time: float) -> tuple[float, float]:
        """Where the plan wants the zero-moment point `time` s after the walk's start, as seen from where the feet are.

        So a drift of the whole robot is no difference.
        """
        plan, (x, y) = walk.middle(time), (float(np.interp(time, walk.time, column)) for column in walk.zmp.T)
        feet = [self._engine.motion(link) for link in self.links.values()]
        turns = [roll_pitch_yaw(foot.turned)[2] for foot in feet]
        turn = math.atan2(sum(map(math.sin, turns)), sum(map(math.cos, turns)))
        (a, b, _), (c, d, _) = (foot.place for foot in feet)
        there = Foothold((a + c) / 2, (b + d) / 2, turn - plan.turn).moved(x - plan.x, y - plan.y)
        return there.x, there.y

    def _outline(self, link: str) -> FloatArray:
        """Corners of a sole on the floor, (n, 2), m."""
        foot = self._engine.motion(link)
        return np.array([np.add(turned(corner, foot.turned), foot.place)[:2] for corner in self._corners[link]])


# ---- feedback
#
# By what an IMU feels the hips take back some of the torso's lean and wrong heading. Both legs get the same against a
# lean, so that the feet keep their places to each other. The rate counts, too: what leans and goes on leaning is met
# early, because servos take a while to follow. Against a wrong heading each foot is set down a little turned.

_AHEAD = 0.1  # s for which a rate is taken to go on
_MOST = 0.15  # rad: more is no lean of a walk but a fall
_MOST_TURNED = 0.1  # rad that a foot is turned to the other one, at most
_AIM = 0.3  # m ahead, where the robot heads for on its planned line


def against(imu: ImuSample, share: float) -> dict[str, float]:
    """What to add to the hips' goals, rad, by joint."""
    (roll, pitch, _), (rolling, pitching, _) = imu.roll_pitch_yaw, imu.rates
    ahead = -_bounded(share * (pitch + _AHEAD * pitching), _MOST)
    across = _bounded(share * (roll + _AHEAD * rolling), _MOST)
    return {"left_hip_swing": ahead, "left_hip_lateral": across, "right_hip_swing": ahead, "right_hip_lateral": across}


def _bounded(angle: float, most: float) -> float:
    return max(-most, min(most, angle))


class Steering:
    """Keeps a walk on its line: turns each step by a share of how far the robot heads elsewhere.

    How far it is off the line follows from its heading and the planned steps; a foot that slips aside is not felt.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._ahead: float | None = None  # what the IMU calls straight ahead, rad
        self._before = walk.middle(0.0)
        self._off = (0.0, 0.0)  # the planned place, m
        self._number = -1  # of the step under way
        self._from = self._to = 0.0  # turn of the left foot beyond the right one's, rad, before and after this step

    def turns(self, time: float, yaw: float) -> dict[str, float]:
        """What to add to the goals of the hips' twist, rad, by joint."""
        planned = self._walk.middle(time)
        if self._ahead is None:
            self._ahead = yaw - planned.turn
        error = math.remainder(yaw - self._ahead - planned.turn, math.tau)
        self._drift(planned, error)
        number, share = self._walk.step_at(time)
        if number != self._number and share > 0:
            self._number, self._from = number, self._to
            left = self._walk.steps[number].side == "left"
            self._to = (-1 if left else 1) * self._turn(planned, error)
        eased = (1 - math.cos(math.pi * share)) / 2 if number == self._number else 1.0
        apart = self._from + (self._to - self._from) * eased
        return {"left_hip_twist": apart / 2, "right_hip_twist": -apart / 2}

    def _drift(self, planned: Foothold, error: float) -> None:
        x, y = planned.x - self._before.x, planned.y - self._before.y
        c, s = math.cos(error) - 1, math.sin(error)
        self._off = self._off[0] + c * x - s * y, self._off[1] + s * x + c * y
        self._before = planned

    def _turn(self, planned: Foothold, error: float) -> float:
        """Of the next step to the right, rad."""
        gait = self._walk.gait
        if gait.step_length:
            aside = math.cos(planned.turn) * self._off[1] - math.sin(planned.turn) * self._off[0]
            error += math.copysign(1.0, gait.step_length) * math.atan(aside / _AIM)
        return _bounded(gait.feedback * error, _MOST_TURNED)


_RISE = 1.5  # s, at least, in which torque rises and the joints reach the first pose
_RISING_SPEED = 1.5  # rad/s, at most
_WEAK = 0.1  # share of the torque to begin with
_WAIT = {"sim": 0.5}  # s between the first pose and the first step
_WAIT_FOR_HANDS = 3.0  # where somebody has to put the robot on its feet
_AFTER = 0.6  # s on both feet before the motors go off
_IN_THE_AIR = 0.5  # share of the torque that legs need that carry nothing but themselves
_TIPPED = math.radians(45)


@dataclass(frozen=True)
class WalkOutcome:
    """How a walk went; None where nobody can tell (a real robot does not know where it is)."""

    planned: float  # how far the gait leads, m
    seconds: float  # from the first step to the last, or to the fall
    energy: float  # J, of all servos: in a simulation what their motors drew, else by the motor models, once a step
    distance: float | None = None  # forward from the first step on, m
    sideways: float | None = None  # to the left, m
    turned: float | None = None  # to the left, rad
    tilt: float | None = None  # largest roll or pitch, rad
    fell: bool | None = None  # whether it tipped over

    @property
    def speed(self) -> float | None:
        """Mean speed forward, m/s."""
        return None if self.distance is None else self.distance / self.seconds


def walk(
    robot: Robot,
    gait: Gait,
    recorder: Recorder | None = None,
    *,
    hanging: bool = False,
    progress: Callable[[str, float], None] = lambda _part, _share: None,
) -> WalkOutcome:
    """Let a Bioloid get up and walk; its motors are on when it ends.

    Args:
        robot: With the legs of the rig `bioloid`.
        gait: How.
        recorder: Takes every servo's samples, segments ``get up``, ``stand``, ``walk`` and ``end``, the outcome as the
            event ``walked``, and in a simulation the way of the base in the cycles (``base_x``, ``base_y``, ``base_z``,
            m; ``base_roll``, ``base_pitch``, ``base_yaw``, rad) and the zero-moment point (``zmp_x``, ``zmp_y``,
            ``zmp_margin``, ``planned_zmp_x``, ``planned_zmp_y``, m). Where the robot has an IMU, also what that tells
            (``imu_roll`` and so on).
        hanging: A hand holds it in the air: half its torque does, and it need not be put on its feet.
        progress: Called at the start of each of these parts and after each of its steps, with its name and the share of
            it that is done, 0..1.

    Raises:
        UsageError: the gait needs angles or speeds that a servo of the robot does not reach.
        RigError: the rig has no such legs.
        BusError: a servo failed or got lost under way.
    """
    return _Walker(robot, Walk.of(robot.rig, gait), progress, hanging=hanging).run(recorder)


def check(robot: Robot, gait: Gait) -> None:
    """Refuse a gait that the robot cannot walk, before anything moves and before a file is touched."""
    _Walker(robot, Walk.of(robot.rig, gait), lambda _part, _share: None)  # looks at every period


class _Walker:
    """One walk under way."""

    def __init__(
        self, robot: Robot, path: Walk, progress: Callable[[str, float], None], *, hanging: bool = False
    ) -> None:
        self._robot, self._path, self._progress = robot, path, progress
        self._torque = _IN_THE_AIR if hanging else 1.0
        self._wait = _WAIT["sim"] if hanging else _WAIT.get(robot.backend, _WAIT_FOR_HANDS)
        self._log: RobotRecorder | None = None
        self._period = robot.basic_time_step / 1000
        servo_of = {config.joint: config.name for config in robot.rig.servos}
        self._names = {joint: servo_of[joint] for joint in path.angles(0.0) if joint in servo_of}
        self._watch = Watch(robot)
        self._steering = Steering(path)
        self._tilt = self._drawn = self._late = 0.0  # rad, J, and s of the steps that came late
        self._moment = 0.0  # of the plan, s
        simulation = robot.simulation
        looked_at = simulation is not None and robot.mode == SIMULATION and simulation.engine is not None
        self._soles = Soles(simulation) if simulation is not None and looked_at else None
        self._check()

    def run(self, recorder: Recorder | None) -> WalkOutcome:
        """Get up, stand, walk, end."""
        with ExitStack() as observers:
            if recorder is not None:
                self._log = observers.enter_context(RobotRecorder(self._robot, recorder, cycle=self._where))
            observers.callback(self._robot.observe(lambda _report, _states: self._watch.check()))
            self._get_up()
            self._hold("stand", self._wait)
            # The simulation meters the motors on its buses. What it does not meter is the power of each step's samples.
            meter = self._robot.simulation if self._robot.mode == SIMULATION else None
            self._summed = [servo for servo in self._robot.values() if meter is None or servo.config.drive == "ideal"]
            before = 0.0 if meter is None else meter.energy()
            began, start = self._robot.time, self._base()
            fell = self._walk()
            energy = self._drawn - before + (0.0 if meter is None else meter.energy())
            outcome = self._judge(self._robot.time - began + self._late, start, energy, fell=fell)
            if not fell:
                self._hold("end", _AFTER)
            if self._log is not None:
                self._log.event("walked", **asdict(outcome))
        return outcome

    def _check(self) -> None:
        """Look at every period of the walk before anything moves."""
        if self._path.gait.feedback and self._robot.imu is None:
            raise UsageError(
                "feedback needs an IMU, and this robot has none", "add a [[sensor]] to the rig, with its port"
            )
        before: dict[str, float] = {}
        for tick in range(self._ticks(self._path.gait.duration) + 1):
            angles = self._path.angles(tick * self._period)
            for joint, angle in angles.items():
                if joint not in self._names:
                    raise UsageError(f"no servo of the rig drives {joint}", "walk with the rig bioloid")
                servo = self._robot[self._names[joint]]
                if not servo.min_position <= angle <= servo.max_position:
                    raise UsageError(
                        f"the gait needs {joint} at {angle:.2f} rad, beyond its limits "
                        f"{servo.min_position:.2f}..{servo.max_position:.2f}",
                        "take shorter or lower steps",
                    )
                speed = abs(angle - before.get(joint, angle)) / self._period
                if speed > servo.max_velocity:
                    raise UsageError(
                        f"the gait needs {joint} to turn at {speed:.1f} rad/s, its servo does {servo.max_velocity:.1f}",
                        "take a longer period, or shorter and lower steps",
                    )
            before = angles

    def _ticks(self, seconds: float) -> int:
        return math.ceil(seconds / self._period - 1e-9)

    def _get_up(self) -> None:
        self._segment("get up")
        robot, self._servos = self._robot, self._robot.driven()
        pose = {config.name: config.position for config in robot.rig.servos if config.name in robot}
        pose |= {self._names[joint]: angle for joint, angle in self._path.angles(0.0).items()}
        distance = max(abs(robot[name].position - angle) for name, angle in pose.items())
        ticks = self._ticks(max(_RISE, _RISE / 3 + distance / _RISING_SPEED))
        for tick in range(ticks):
            share = min(1.0, 1.5 * tick / ticks)  # the last third with all its torque
            for name, angle in pose.items():
                servo = self._servos[name]
                servo.set_available_torque(servo.max_torque * (_WEAK + (self._torque - _WEAK) * share))
                if tick == 0:
                    servo.set_velocity(min(_RISING_SPEED, servo.max_velocity))
                    servo.set_position(angle)
            hold_up(robot.simulation, share)
            self._step("get up", (tick + 1) / ticks)
        for name in pose:
            robot[name].set_velocity(robot[name].max_velocity)

    def _hold(self, name: str, seconds: float) -> None:
        self._segment(name)
        for tick in range(ticks := self._ticks(seconds)):
            self._step(name, (tick + 1) / ticks)

    def _walk(self) -> bool:
        """Walk; whether it fell."""
        self._segment("walk")
        ticks = self._ticks(self._path.gait.duration)
        for tick in range(1, ticks + 1):
            self._moment = tick * self._period
            angles = self._balanced(self._path.angles(self._moment))
            for joint, name in self._names.items():
                self._servos[name].set_position(angles[joint])
            self._step("walk", tick / ticks)
            late = self._robot.last_step.late / 1000
            self._late += late
            self._drawn += sum(servo.power for servo in self._summed) * (self._period + late)
            if (base := self._base()) is not None:
                self._tilt = max(self._tilt, *map(abs, base[1][:2]))
            if self._tilt > _TIPPED and self._robot.backend == "sim":
                return True
        return False

    def _balanced(self, angles: dict[str, float]) -> dict[str, float]:
        """Goals with what the gait's feedback adds; nothing while the IMU is lost."""
        share, imu = self._path.gait.feedback, self._robot.imu
        if not share or imu is None:
            return angles
        turns = against(imu, share) | self._steering.turns(self._moment, imu.roll_pitch_yaw[2])
        return {joint: angle + turns.get(joint, 0.0) for joint, angle in angles.items()}

    def _judge(self, seconds: float, start: tuple[Vector, Vector] | None, energy: float, *, fell: bool) -> WalkOutcome:
        planned, end = self._path.gait.distance, self._base()
        if start is None or end is None:
            return WalkOutcome(planned, seconds, energy)
        (x, y, _), (a, b, _) = end[0], start[0]
        fell = fell or self._tilt > _TIPPED
        return WalkOutcome(planned, seconds, energy, x - a, y - b, end[1][2], self._tilt, fell)

    def _base(self) -> tuple[Vector, Vector] | None:
        """Where the base is, m, and its roll, pitch and yaw, rad; None where nobody knows."""
        base = None if self._robot.simulation is None else self._robot.simulation.base
        return None if base is None else (base[0], roll_pitch_yaw(base[1]))

    def _segment(self, name: str) -> None:
        self._progress(name, 0.0)
        if self._log is not None:
            self._log.mark(name)

    def _step(self, part: str, share: float) -> None:
        """One control period."""
        if self._robot.step() == -1 or self._robot.closed:
            raise UsageError("the robot was closed while it walked")
        self._progress(part, share)

    def _where(self) -> dict[str, float]:
        """The way of the base, the zero-moment point and what the IMU says, as fields of a cycle."""
        row: dict[str, float] = {}

        def add(name: str, parts: str, values: Sequence[float]) -> None:
            row.update(zip((f"{name}_{part}" for part in parts.split()), values, strict=True))

        if (imu := self._robot.imu) is not None:
            add("imu", "roll pitch yaw", imu.roll_pitch_yaw)
            add("imu_rate", "x y z", imu.rates)
            add("imu_acceleration", "x y z", imu.acceleration)
        if (base := self._base()) is not None:
            add("base", "x y z roll pitch yaw", (*base[0], *base[1]))
        if self._soles is not None:
            add("planned_zmp", "x y", self._soles.planned(self._path, self._moment))
            if (support := self._soles.support()) is not None:
                add("zmp", "x y margin", support)
        return row
