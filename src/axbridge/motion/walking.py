"""Walk with a gait on any backend, with checks, measurements and a recording.

The robot gets up slowly: torque rises while the joints move to the first pose of the walk. Meanwhile a simulated robot
is held and put on its feet; the user must hold a real one.
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

_MIN_FORCE = 0.5  # N: with a smaller vertical force, a foot does not carry the robot


class Soles:
    """The feet of a simulated robot: the lowest faces of their collision boxes."""

    def __init__(self, simulation: Simulation) -> None:
        rig, engine = simulation.world.rig, simulation.engine
        assert engine is not None
        self._engine = engine
        tree = rig.tree(fixed_base=False)
        self.links = {side: tree.links[tree.moved[f"{side}_ankle_lateral"]] for side in ("left", "right")}
        corners = {tree.links[sole.link]: sole.corners.tolist() for sole in soles_of(rig, tree)}
        self._corners: dict[str, list[Vector]] = {link: corners.get(link, []) for link in self.links.values()}

    def support(self) -> tuple[float, float, float] | None:
        """Return the zero-moment point in the world, m, and its distance to the nearest edge of the standing soles, m.

        The distance is negative outside the soles, and NaN if a foot is no box. None while no foot stands.
        """
        contacts = self._engine.contacts()
        push = {link: sum(contact.force[2] for contact in contacts if contact.link == link) for link in self._corners}
        standing = [link for link, force in push.items() if force > _MIN_FORCE]
        if not standing:
            return None
        pressing = [contact for link in standing for contact in contacts if contact.link == link]
        weight = np.array([contact.force[2] for contact in pressing])
        points = np.array([contact.point[:2] for contact in pressing])
        x, y = (weight @ points / weight.sum()).tolist()
        known = all(self._corners[link] for link in standing)
        corners = np.concatenate([self._outline(link) for link in standing]) if known else None
        return x, y, math.nan if corners is None else inside((x, y), corners)

    def planned(self, walk: Walk, time: float) -> tuple[float, float]:
        """Return the planned zero-moment point, m, `time` s after the walk's start, relative to the present feet.

        So a drift of the whole robot does not count as an error.
        """
        plan, (x, y) = walk.middle(time), (float(np.interp(time, walk.time, column)) for column in walk.zmp.T)
        feet = [self._engine.motion(link) for link in self.links.values()]
        turns = [roll_pitch_yaw(foot.turned)[2] for foot in feet]
        turn = math.atan2(sum(map(math.sin, turns)), sum(map(math.cos, turns)))
        (a, b, _), (c, d, _) = (foot.place for foot in feet)
        there = Foothold((a + c) / 2, (b + d) / 2, turn - plan.turn).moved(x - plan.x, y - plan.y)
        return there.x, there.y

    def _outline(self, link: str) -> FloatArray:
        """Return the corners of a sole on the floor, (n, 2), m."""
        foot = self._engine.motion(link)
        return np.array([np.add(turned(corner, foot.turned), foot.place)[:2] for corner in self._corners[link]])


# ---- feedback
#
# The hips correct a share of the torso's lean and heading error, as measured by an IMU. Against a lean both legs get
# the same correction, so that the feet keep their positions relative to each other. The lean is extrapolated by its
# rate, because servos follow late. Against a heading error each foot is set down slightly turned.

_AHEAD = 0.1  # s by which the lean is extrapolated
_MAX_LEAN = 0.15  # rad: largest correction; a larger lean is a fall
_MAX_TURN = 0.1  # rad: largest turn of one foot relative to the other
_LOOK_AHEAD = 0.3  # m: distance of the point on the planned line at which the robot is steered


def against(imu: ImuSample, share: float) -> dict[str, float]:
    """Return the corrections of the hips' goals against a lean, rad, by joint; `share` is the feedback gain, 0..1."""
    (roll, pitch, _), (rolling, pitching, _) = imu.roll_pitch_yaw, imu.rates
    leans = pitch + _AHEAD * pitching, roll + _AHEAD * rolling
    ahead, across = np.clip(np.multiply(share, leans), -_MAX_LEAN, _MAX_LEAN).tolist()
    turns = ("swing", -ahead), ("lateral", across)
    return {f"{side}_hip_{axis}": turn for side in ("left", "right") for axis, turn in turns}


class Steering:
    """Keeps a walk on its planned line: turns each step against a share of the heading error.

    The offset from the line is computed from the heading and the planned steps; sideways slips of a foot are unknown.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._ahead: float | None = None  # the IMU's yaw when the robot heads straight ahead, rad
        self._before = walk.middle(0.0)
        self._off = (0.0, 0.0)  # offset from the planned position, m
        self._number = -1  # number of the present step
        self._from = self._to = 0.0  # turn of the left foot relative to the right one, rad, before and after this step

    def turns(self, time: float, yaw: float) -> dict[str, float]:
        """Return the corrections of the hip twist goals, rad, by joint, at a time (s) with the IMU's yaw (rad)."""
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
        """Return the turn of the next step to the right, rad."""
        gait = self._walk.gait
        if gait.step_length:
            aside = math.cos(planned.turn) * self._off[1] - math.sin(planned.turn) * self._off[0]
            error += math.copysign(1.0, gait.step_length) * math.atan(aside / _LOOK_AHEAD)
        return float(np.clip(gait.feedback * error, -_MAX_TURN, _MAX_TURN))


_RISE = 1.5  # s, at least, in which torque rises and the joints reach the first pose
_RISING_SPEED = 1.5  # rad/s, at most, while getting up
_WEAK = 0.1  # share of the torque at the start of getting up
_WAIT = 0.5  # s between the first pose and the first step
_REAL_WAIT = 3.0  # s: the user has to put a real robot on its feet
_AFTER = 0.6  # s on both feet after the last step
_IN_THE_AIR = 0.5  # share of the torque for legs that do not carry the robot
_TIPPED = math.radians(45)  # roll or pitch from which the robot counts as fallen


@dataclass(frozen=True)
class WalkOutcome:
    """Result of a walk; None where it is unknown (a real robot's position is not measured)."""

    planned: float  # distance of the gait, m
    seconds: float  # from the first step to the last, or to the fall
    energy: float  # J, of all servos: measured by a simulation, else from the motor models once in each control step
    distance: float | None = None  # forward from the first step on, m
    sideways: float | None = None  # to the left, m
    turned: float | None = None  # to the left, rad
    tilt: float | None = None  # largest roll or pitch, rad
    fell: bool | None = None  # whether the robot tipped over

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
    """Let a Bioloid get up and walk; its motors are still on at the end.

    Args:
        robot: With the legs of the rig `bioloid`.
        gait: The gait.
        recorder: Gets each servo's samples, the segments ``get up``, ``stand``, ``walk`` and ``end``, and the result as
            the event ``walked``. The cycles of a simulation get the pose of the base (``base_x``, ``base_y``,
            ``base_z``, m; ``base_roll``, ``base_pitch``, ``base_yaw``, rad) and the zero-moment point (``zmp_x``,
            ``zmp_y``, ``zmp_margin``, ``planned_zmp_x``, ``planned_zmp_y``, m). With an IMU they get its samples, too
            (``imu_roll`` and so on).
        hanging: Whether the robot is held in the air: half the torque is enough, and no time is needed to put it on its
            feet.
        progress: Called at the start of each of these segments and after each step, with the segment's name and its
            finished share, 0..1.

    Raises:
        UsageError: the gait needs angles or speeds that a servo does not reach, or feedback without an IMU.
        RigError: the rig does not have a Bioloid's legs.
        BusError: a servo failed or was lost during the walk.
    """
    return _Walker(robot, Walk.of(robot.rig, gait), progress, hanging=hanging).run(recorder)


def check(robot: Robot, gait: Gait) -> None:
    """Raise the errors of `walk` for a gait that the robot cannot walk, before any motion or recording."""
    _Walker(robot, Walk.of(robot.rig, gait), lambda _part, _share: None)  # its constructor checks all control periods


class _Walker:
    """State of one walk."""

    def __init__(
        self, robot: Robot, path: Walk, progress: Callable[[str, float], None], *, hanging: bool = False
    ) -> None:
        self._robot, self._path, self._progress = robot, path, progress
        self._torque = _IN_THE_AIR if hanging else 1.0
        self._wait = _WAIT if hanging or robot.backend == "sim" else _REAL_WAIT
        self._log: RobotRecorder | None = None
        self._period = robot.basic_time_step / 1000
        servo_of = {config.joint: config.name for config in robot.rig.servos}
        self._names = {joint: servo_of[joint] for joint in path.angles(0.0) if joint in servo_of}
        self._watch = Watch(robot)
        self._steering = Steering(path)
        self._tilt = self._drawn = self._late = 0.0  # largest tilt, rad; energy, J; sum of delays of late steps, s
        self._moment = self._yaw = 0.0  # time in the plan, s; turn of the base, rad, any number of turns
        simulation = robot.simulation
        simulated = simulation is not None and robot.mode == SIMULATION and simulation.engine is not None
        self._soles = Soles(simulation) if simulation is not None and simulated else None
        self._check()

    def run(self, recorder: Recorder | None) -> WalkOutcome:
        """Run the segments ``get up``, ``stand``, ``walk`` and ``end``."""
        self._switch_on()
        with ExitStack() as observers:
            if recorder is not None:
                self._log = observers.enter_context(RobotRecorder(self._robot, recorder, cycle=self._where))
            observers.callback(self._robot.observe(lambda _report, _states: self._watch.check()))
            self._get_up()
            self._hold("stand", self._wait)
            # A simulation measures the energy of motors on its buses; else the power of each step's samples is summed.
            meter = self._robot.simulation if self._robot.mode == SIMULATION else None
            self._summed = [servo for servo in self._robot.values() if meter is None or servo.config.drive == "ideal"]
            before = 0.0 if meter is None else meter.energy()
            begin, start = self._robot.time, self._base()
            fell = self._walk()
            energy = self._drawn - before + (0.0 if meter is None else meter.energy())
            outcome = self._judge(self._robot.time - begin + self._late, start, energy, fell=fell)
            if not fell:
                self._hold("end", _AFTER)
            if self._log is not None:
                self._log.event("walked", **asdict(outcome))
        return outcome

    def _check(self) -> None:
        """Check angles and speeds of all control periods before any motion; raise UsageError."""
        if self._path.gait.feedback and self._robot.imu is None:
            hint = "add a [[sensor]] to the rig, with its port"
            raise UsageError("feedback needs an IMU, and this robot has none", hint)
        times = self._period * np.arange(self._ticks(self._path.gait.duration) + 1)
        for joint, column in zip(self._path.joints, self._path.angles_at.T, strict=True):
            if joint not in self._names:
                raise UsageError(f"no servo of the rig drives {joint}", "walk with the rig bioloid")
            servo, angles = self._robot[self._names[joint]], np.interp(times, self._path.time, column)
            beyond = angles[(angles < servo.min_position) | (angles > servo.max_position)]
            if len(beyond):
                limits = f"{servo.min_position:.2f}..{servo.max_position:.2f}"
                why = f"the gait needs {joint} at {beyond[0]:.2f} rad, beyond its limits {limits}"
                raise UsageError(why, "take shorter or lower steps")
            speed = float(np.abs(np.diff(angles)).max()) / self._period
            if speed > servo.max_velocity:
                why = f"the gait needs {joint} to turn at {speed:.1f} rad/s, its servo does {servo.max_velocity:.1f}"
                raise UsageError(why, "take a longer period, or shorter and lower steps")

    def _ticks(self, seconds: float) -> int:
        return math.ceil(seconds / self._period - 1e-9)

    def _switch_on(self) -> None:
        """Switch the motors on where the joints are, before the recording: the legs sink until the last motor is on."""
        self._servos = self._robot.driven()
        hold_up(self._robot.simulation, 0.0)
        for servo in self._servos.values():
            servo.set_available_torque(servo.max_torque * _WEAK)
            servo.torque_on()
        self._step("get up", 0.0)
        self._watch.check()

    def _get_up(self) -> None:
        self._segment("get up")
        robot = self._robot
        pose = {config.name: config.position for config in robot.rig.servos if config.name in robot}
        pose |= {self._names[joint]: angle for joint, angle in self._path.angles(0.0).items()}
        distance = max(abs(robot[name].position - angle) for name, angle in pose.items())
        ticks = self._ticks(max(_RISE, _RISE / 3 + distance / _RISING_SPEED))
        for tick in range(ticks):
            share = min(1.0, 1.5 * tick / ticks)  # full torque in the last third
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
        """Walk; return whether the robot fell."""
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
                self._yaw += math.remainder(base[1][2] - self._yaw, math.tau)
            if self._tilt > _TIPPED and self._robot.backend == "sim":
                return True
        return False

    def _balanced(self, angles: dict[str, float]) -> dict[str, float]:
        """Return the goals, rad, with the corrections of the gait's feedback; unchanged without an IMU."""
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
        return WalkOutcome(planned, seconds, energy, x - a, y - b, self._yaw - start[1][2], self._tilt, fell)

    def _base(self) -> tuple[Vector, Vector] | None:
        """Return the base's position, m, and its roll, pitch and yaw, rad; None if it is unknown."""
        base = None if self._robot.simulation is None else self._robot.simulation.base
        return None if base is None else (base[0], roll_pitch_yaw(base[1]))

    def _segment(self, name: str) -> None:
        self._progress(name, 0.0)
        if self._log is not None:
            self._log.mark(name)

    def _step(self, part: str, share: float) -> None:
        """Run one control period; raise UsageError if the robot was closed."""
        if self._robot.step() == -1 or self._robot.closed:
            raise UsageError("the robot was closed while it walked")
        self._progress(part, share)

    def _where(self) -> dict[str, float]:
        """Return base pose, zero-moment points and IMU samples as fields of a cycle."""
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
