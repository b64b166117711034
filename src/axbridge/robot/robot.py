"""A robot: its servos by name, and the step that sends commands and reads samples.

`step(ms)` sends the commands given since the last step, waits for the tick, then reads every servo. So commands act in
the next step, and samples are those of its end. `exchange()` sends and reads at once, without waiting.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from axbridge import minimum_jerk
from axbridge.arrays import FloatArray
from axbridge.bus.cycle import Goal
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, BusError, UnknownServo, UsageError, plural, warn
from axbridge.robot.backend import SIMULATION, Backend, BackendName
from axbridge.robot.connection import Connection
from axbridge.robot.drives.drive import IdealDrive
from axbridge.robot.joint import Joint, couple
from axbridge.robot.pose_check import refuse_impossible
from axbridge.robot.samples import Sampling
from axbridge.robot.sensors import ImuSample, Sample
from axbridge.robot.servo import CommandedByMethods, Servo
from axbridge.robot.simulation import Simulation
from axbridge.robot.torque_watch import StallWatch, TorqueWatch
from axbridge.robot.trajectory_time import TrajectoryTime
from axbridge.robot.twin.twin import Twin
from axbridge.servo import checks
from axbridge.state import Cause, Observer, ServoState, StepReport, StepTable
from axbridge.virtual.world import World

_log = logging.getLogger(__name__)
_SOFT_START = 0.5  # s in which torque rises after a change of backend
_STOP_INTERVAL = 0.25  # s between attempts to switch off servos that have not confirmed it
_FIRST_REPLY, _RETRY_INTERVAL = 2.0, 0.02  # s; longest wait for a servo's first reply, and time between attempts
_SECONDS, _LONGEST_STEP = 0.2, 86_400_000.0  # ms; a shorter period is taken for seconds; a day
_NESTED = 2  # steps inside the observers of others: a signal handler may step
_LATE = 0.1  # of a step: a twin does not compare a step that is later
_ARRIVED = {"rotational": math.radians(2), "linear": 0.002}  # rad, m; a joint nearer to its goal has arrived
_LONGEST_GOTO = 86_400.0  # s: a day
_SETTLING = 0.5  # s that a joint may lag behind its goal at the end of a path
_WAITED = 0.3  # s; a program that runs longer after a command without a step lacks a call of `step`
_STALE = 0.1  # s; a trajectory starts from samples that are not older
FOLLOWS = 0.2  # rad or m; a path starts at the target of a joint this near to its target, else at its position


class Robot(CommandedByMethods, Mapping[str, Servo]):
    """Servos by name (or index); a context manager that switches every motor off. Made by `axbridge.open`.

    Args:
        rig: The robot's rig.
        backend: The backend that it runs on.
        opener: Opens another backend by name and port, for `switch`.

    Raises:
        BusError: a servo of the rig does not answer.
        UnsupportedOperation: the backend cannot drive the rig.
    """

    rig: Rig
    last_step: StepReport

    def __init__(
        self, rig: Rig, backend: Backend, opener: Callable[[str, str | None], Backend] | None = None, seed: int = 0
    ) -> None:
        self.rig = rig
        self._opener = opener
        self._seed = seed
        self._stepping = threading.RLock()  # held during a step or a change of backend
        self._time_ms = 0.0
        self._start = backend.clock.now()
        self._observers: list[tuple[Observer, Callable[[], None]]] = []  # each with its callback for `close`
        self._trajectories: list[Callable[[float], None]] = []  # of each `goto`: sets the goals of a step of some s
        self._observing = 0  # steps whose observers are being called
        self._stopped = False
        self._unconfirmed_off: Mapping[str, BusError] | None = {}  # after `stop`: servos not confirmed off
        self._insist_at = -math.inf
        self._sensed: dict[str, Sample | None] = {}
        self._pose_verified = False  # whether it was checked since the motors came on
        self._unsent: dict[str, float] = {}  # by servo: time of a command not yet sent by a step, s
        weakref.finalize(self, _warn_of_unsent, self._unsent)  # for a program that does not close the robot
        self._connection = Connection(rig, backend, seed)
        try:
            self._joints = {servo.name: Joint(servo, self._connection, row) for row, servo in enumerate(rig.servos)}
            self._servos = {name: Servo(joint, self.goto) for name, joint in self._joints.items()}
            couple(self._joints)
            for joint in self._joints.values():
                joint.unsent = self._unsent
            self._sampling = Sampling(list(self._joints.values()), seed)
            self._battery = math.nan if rig.robot.battery is None else rig.robot.battery[0]  # J; NaN: no battery
            self._drawn = 0.0  # J; latest reading of the simulation's energy meter
            self._watch_backend()
            self.last_step = StepReport(0.0, 0.0, 0.0, {})
            self._connection.open(self._goal_limits, self._trip)
            self._read_all(backend)
            for joint in self._joints.values():
                joint.mark_turns_unknown()
        except BaseException:
            self.close()
            raise

    def _read_all(self, backend: Backend) -> None:
        """Read every servo; read again after a lost reply, because a path starts from the measured position."""
        deadline = backend.clock.now() + _FIRST_REPLY
        while True:
            self._start = backend.clock.now()
            self.exchange()
            errors = self.last_step.errors
            if not errors:
                return
            if self._start > deadline:
                raise next(iter(errors.values()))
            backend.clock.sleep_until(self._start + _RETRY_INTERVAL)

    # ---- the cycle

    def step(self, period: float | None = None) -> float:
        """Send commands, wait until `period` ms after the last step, read every servo.

        A missing reply or a lost port raises no exception: see `last_step.errors` and `last_step.events`. The other
        servos are driven as before; the lost one is tried again in later steps until it answers.

        Args:
            period: ms; the rig's `basic_time_step_ms` when not given.

        Returns:
            0 when the tick was met, else the delay, ms. -1 when the controller should end: the robot is closed,
            or a signal has arrived and this is not the main thread (see `resume`).

        Raises:
            UsageError: a period of 0.2 ms or less, or longer than a day; an observer that steps; a process forked from
                the robot's own.
            RobotStopped: a signal arrives in this step, and this is not the main thread.
            BusError: a change of control mode needed a register that could not be written. The other servos were
                commanded and read.
            RigError: on a real bus, before the first goals of the whole robot: the reported pose is impossible.
                Nothing has moved then, and every motor is off.
        """
        if self.closed:
            return -1.0
        self._connection.refuse_closed()  # a forked child would wait for a thread that it does not have
        with self._stepping:
            if self.closed or self._connection.refused:
                return -1.0
            if self._observing > _NESTED:  # else observer and step would call each other without end
                raise UsageError("an observer of a step cannot step", "give commands in it, and step in your own loop")
            requested = self.basic_time_step if period is None else checks.number(period, "a step")
            if not min(_SECONDS, self.basic_time_step / 2) < requested <= _LONGEST_STEP:
                why = f"a step of {requested:g} ms is not possible"
                raise UsageError(why, "give ms, up to a day: a step of 0.02 s is step(20)")
            clock = self._connection.backend.clock
            began = clock.now()
            end = self._time_ms + requested
            due = self._start + end / 1000
            for advance in tuple(self._trajectories):
                advance(requested / 1000)
            commanded, refused = self._send(requested)
            late = max(0.0, clock.now() - due)
            self._pass_basic_steps(end)
            clock.sleep_until(due)
            self._time_ms = end
            self._start += late  # a late step delays the next tick instead of being caught up with
            self._finish(requested, began, commanded, self._receive(), refused, late * 1000)
            return self.last_step.late

    def _pass_basic_steps(self, end: float) -> None:
        """Advance the world until `end`, ms, in basic steps, if the rig has ideal joints or a battery."""
        if math.isnan(self._battery) and not self._ideal:
            return
        basic, backend = self.rig.control_step_ms, self._connection.backend
        tick = self._time_ms // basic * basic
        while (now := self._time_ms) < end:
            tick = tick + basic if tick + basic < end - 1e-6 else end
            on_time = abs(now / basic - round(now / basic)) < 1e-9
            if backend.simulated is not None and on_time:
                for joint in backend.simulated.ideal.values():
                    joint.control(basic / 1000)
            backend.clock.sleep_until(self._start + tick / 1000)
            if not math.isnan(self._battery):
                self._drain((tick - now) / 1000, backend.simulated)
            self._sampling.measure(self._start)  # no effect from the step on in which the battery ran empty
            self._time_ms = tick

    def _drain(self, seconds: float, world: World | None) -> None:
        if world is None:
            drawn = seconds * sum(joint.sample("power") for joint in self._joints.values())
        else:
            before, self._drawn = self._drawn, world.energy()
            drawn = self._drawn - before
            if not self._sampling.frozen:
                drawn += seconds * sum(drive.electrical_power for drive in self._ideal)
        self._battery = max(0.0, self._battery - drawn - seconds * self.rig.robot.cpu_consumption)
        if self._battery == 0.0 and world is not None and not self._sampling.frozen:
            self._sampling.freeze()
            for joint in self._joints.values():
                joint.battery_empty = True
                if joint.setpoints.enabled:
                    joint.drive.power(on=False)

    def exchange(self) -> Mapping[str, ServoState]:
        """Do one bus cycle now: send pending goals, read all states.

        Returns:
            The latest state of every servo; a servo that did not answer keeps its old state (see `last_step.errors`).
            Values are converted to SI units when they are accessed.

        Raises:
            UsageError: the robot is closed.
            BusError: as `step`.
        """
        self._connection.refuse_closed()
        with self._stepping:
            self._connection.refuse_closed()
            began = self._connection.backend.clock.now()
            commanded, refused = self._send(self.basic_time_step)
            self._finish(0.0, began, commanded, self._receive(), refused)
            return self._sampling.table

    def _trip(self, names: frozenset[str]) -> None:
        """Note that the safety net has switched these motors off; they stay off until the next command."""
        on = [name for name in names if self._joints[name].setpoints.enabled]
        for name in on:
            self._joints[name].note_off()
        if on:
            why = f"no step for {ms:g} ms" if (ms := self.rig.safety.stale_command_ms) else "this program stood still"
            _log.warning("%s: the motors are off until set_position or torque_on", why)

    def _send(self, period: float) -> tuple[float, dict[str, BusError]]:
        """Repeat an unconfirmed stop, check a real robot's pose, send goals.

        Return when servos received them, s on the backend's clock, and by servo the errors of changes of mode.
        """
        self._unsent.clear()
        self._connection.feed()
        if self._unconfirmed_off != {} and (now := self._connection.backend.clock.now()) >= self._insist_at:
            self._insist_at = now + _STOP_INTERVAL
            self._unconfirmed_off = self._connection.limp()
        goals: dict[str, Goal] = {}
        refused: dict[str, BusError] = {}
        for name, joint in self._joints.items():
            if joint.withheld:  # a change of mode would switch the motor on
                continue
            try:
                goal = joint.command(period / 1000)
            except BusError as failure:
                refused[name] = failure
            else:
                if goal is not None:
                    goals[name] = goal
        if self.mode != SIMULATION:
            all_driven = len(goals) + sum(joint.withheld for joint in self._joints.values()) == len(self._joints)
            if all_driven and not self._pose_verified:
                refuse_impossible(self.rig, list(self._joints.values()), self._connection.limp)
            self._pose_verified = all_driven or (self._pose_verified and bool(goals))
        received_at = self._connection.send(goals)
        for name in goals:
            self._joints[name].keep_off()
        return received_at, refused

    def _receive(self) -> dict[str, BusError]:
        """Take the samples of all servos and sensors; return faults by servo."""
        self._sensed = self._connection.sense(self._start)
        raw, fresh, faults = self._connection.receive()
        self._sampling.add(raw, fresh, self._start)
        self._torque_watch.update(self.time)
        self._stall_watch.update()
        return faults

    def _finish(
        self,
        requested: float,
        began: float,
        commanded: float,
        faults: dict[str, BusError],
        refused: dict[str, BusError],
        late: float = 0.0,
    ) -> None:
        """Report the step to the observers; raise the first of the `refused` changes of mode."""
        table, now = self._sampling.table, self._connection.backend.clock.now()
        events = self._connection.events + self._stall_watch.events
        if self._twin is not None and self._simulation is not None:
            events += self._twin.compare(self.time, self._start, self._simulation.gantry, late=late > _LATE * requested)
        times = dict(zip(table.servos, table.column("time").tolist(), strict=True))
        actual, acted = (now - began) * 1000, commanded - self._start
        self.last_step = StepReport(requested, actual, acted, times, refused | faults, events, late)
        self._observing += 1
        try:
            for observer in tuple(self._observers):
                if observer in self._observers:  # an earlier observer may have removed it
                    observer[0](self.last_step, table)
        finally:
            self._observing -= 1
        for failure in refused.values():
            raise failure

    def observe(self, observer: Observer, *, closed: Callable[[], None] | None = None) -> Callable[[], None]:
        """Call `observer` after each step and exchange with the step's report and the table of all servos.

        An error that it raises is raised by the step. Raises UsageError if one of them is no function.

        Args:
            observer: Called after each step.
            closed: Called once after the robot was closed and its motors switched off.

        Returns:
            A function that removes the observer; may be called twice.
        """
        entry = observer, closed or (lambda: None)
        for each in entry:
            if not callable(each):
                raise UsageError(f"an observer is a function, not {each!r}", "write robot.observe(call), without ()")
        self._observers.append(entry)

        def leave() -> None:
            if entry in self._observers:
                self._observers.remove(entry)

        return leave

    # ---- all servos at once

    @property
    def basic_time_step(self) -> float:
        """Default period of `step`, ms."""
        return self.rig.robot.basic_time_step_ms

    def goto(self, pose: Mapping[str, float], duration: float) -> bool:
        """Move these servos to a pose along minimum-jerk trajectories, and step until they have arrived.

        Limp servos are switched on at their present position. A servo that is switched off on the way stays off. The
        motion goes on in the steps of every thread, so a `goto` in each of two threads moves different servos side by
        side; one of the same servo takes it over. If a servo would exceed its `max_velocity` or the speed that
        `Servo.set_velocity` allows, the motion takes longer; a goal beyond the limits is clipped; each gives a
        `ControlWarning`.

        Args:
            pose: rad (m for linear joints) by servo name.
            duration: Duration of the motion, s.

        Returns:
            Whether all of them are within 2° (2 mm) of their goals, at the latest half a second after `duration`.
            False, too, when the controller should end.

        Raises:
            UsageError: a duration that is not positive or longer than a day, a position that is not finite or in
                degrees, a pose without names or with a servo twice, a servo whose speed is set to 0; or the robot is
                closed.
            UnknownServo: the robot has no such servo.
            BusError: as `step`.
        """
        self._connection.refuse_closed()
        if not isinstance(pose, Mapping):
            hint = f"write robot.goto({{{next(iter(self))!r}: 0.3}}, 1.0)"
            raise UsageError(f"a pose has positions by servo name, and {repr(pose)[:40]} has no names", hint)
        duration = checks.number(duration, "a duration")
        if not 0 < duration <= _LONGEST_GOTO:
            hint = f"give up to {_LONGEST_GOTO:g} s, and more than 0"
            raise UsageError(f"a duration of {duration:g} s is not possible", hint)
        goals = {self[name].name: checks.number(goal, f"a goal of {name!r}") for name, goal in pose.items()}
        if len(goals) < len(pose):
            raise UsageError("the pose has two positions of one servo", "give one, by its name or its index")
        self.refuse_unknown_turns(goals)
        speeds = {name: min(self[name].max_velocity, abs(self._joints[name].setpoints.velocity)) for name in goals}
        for name in (name for name, speed in speeds.items() if not speed > 0):
            why = f"servo {name!r} cannot move: its speed is set to 0"
            raise UsageError(why, "call set_velocity with a higher one")
        servos = self.driven()
        with self._stepping:  # a step of another thread would make a wheel of it again
            paths = {name: self._path(servos[name], goal) for name, goal in goals.items()}
        times = {name: minimum_jerk.shortest(end - start, speeds[name]) for name, (start, end) in paths.items()}
        slowest = max(times, key=lambda name: times[name], default="")
        if slowest and (needed := times[slowest]) > duration:
            if needed > _LONGEST_GOTO:
                raise UsageError(f"servo {slowest!r} would take {needed:.3g} s", "give a goal that is nearer")
            warn(f"servo {slowest!r}: {duration:g} s are too short for its speed: it takes {needed:.2f} s")
            duration = needed
        tick = self.basic_time_step / 1000
        ticks = max(1, math.ceil(duration / tick - 1e-9))
        progress, left = {name: TrajectoryTime() for name in paths}, ticks * tick + _SETTLING
        failures: list[AxBridgeError] = []

        def advance(seconds: float) -> None:
            """Set the goals of a step of any thread."""
            nonlocal left
            left -= seconds
            for name, (start, end) in paths.items():
                if self._joints[name].active_trajectory is goals and not failures:
                    progress[name].advance(seconds, replied=name not in self.last_step.errors)
                    share = round(progress[name].elapsed / tick, 6) / ticks
                    try:
                        servos[name].set_position(start + (end - start) * minimum_jerk.eased(share))
                    except AxBridgeError as failure:  # for the caller of `goto`, not for a thread that steps
                        failures.append(failure)

        for name in goals:
            self._joints[name].active_trajectory = goals
        try:
            self._trajectories.append(advance)
            while any(time.elapsed < (ticks - 0.5) * tick for time in progress.values()) or not all(
                abs(self[name].position - end) <= _ARRIVED[self[name].type] for name, (_, end) in paths.items()
            ):
                active = any(self._joints[name].active_trajectory is goals for name in paths)
                if not active or left < tick / 2 or self.step() == -1:
                    return False
                if failures:
                    raise failures[0]
        finally:
            self._trajectories.remove(advance)
            with self._stepping:  # a step of another thread that has begun does not set a goal after the return
                pass
        return True

    def driven(self) -> dict[str, Servo]:
        """Return all servos, for a trajectory that starts now.

        They ignore goals for a motor that has lost its torque or power since: a goal would switch it on. After
        their own `torque_off` they accept goals. While the robot is stopped, goals raise `RobotStopped`.
        """
        if self._connection.backend.clock.now() - self._connection.read_at > _STALE:  # joints may have moved since
            self.exchange()
        torque_loss_count = {joint: joint.torque_loss_count for joint in self._joints.values()}
        return {name: Servo(joint, self.goto, torque_loss_count) for name, joint in self._joints.items()}

    @property
    def table(self) -> StepTable:
        """Return the latest samples of all servos: a `ServoState` by name, or whole columns."""
        return self._sampling.table

    @property
    def positions(self) -> FloatArray:
        """Return the latest positions of all servos in the rig's order, (n,), rad (m for linear joints)."""
        return self._sampling.table.column("position").copy()

    @property
    def velocities(self) -> FloatArray:
        """Return the latest measured speeds, (n,), rad/s."""
        return self._sampling.table.column("velocity").copy()

    @property
    def loads(self) -> FloatArray:
        """Return the latest loads, (n,), -1..1: the duty that each servo's firmware reports."""
        return self._sampling.table.column("load").copy()

    def set_positions(self, positions: ArrayLike) -> None:
        """`Servo.set_position` for every servo, in the rig's order.

        Args:
            positions: (n,), rad (m for linear joints).

        Raises:
            UsageError: not numbers, not as many positions as servos, or degrees; no goal is set then.
            BusError: a servo does not answer.
        """
        values = np.asarray(positions, dtype=object)
        if values.shape != (len(self),):
            why = f"positions of shape {values.shape} for {plural(len(self), 'servo')}"
            raise UsageError(why, f"give one a servo: {', '.join(self)}")
        goals = [checks.number(value, f"a goal of {name!r}") for name, value in zip(self, values, strict=True)]
        for joint, goal in zip(self._joints.values(), goals, strict=True):
            joint.refuse_degrees(goal)
        self.refuse_unknown_turns(dict(zip(self, goals, strict=True)))
        for servo, goal in zip(self._servos.values(), goals, strict=True):
            servo.set_position(goal, clip=True)  # checked for degrees above

    def refuse_unknown_turns(self, pose: Mapping[str, float]) -> None:
        """Refuse a pose, rad by servo name, as `Servo.set_position` refuses a goal that may be whole turns away.

        Raises:
            UsageError: a goal may be whole turns away; nothing has moved.
        """
        for name, goal in pose.items():
            self._joints[name].refuse_unknown_turns(goal)

    def _path(self, servo: Servo, goal: float) -> tuple[float, float]:
        """Return start and end of a servo's path, rad or m, and switch its motor on."""
        joint = self._joints[servo.name]
        if not math.isfinite(goal):
            raise UsageError(f"{goal} is no position for {servo.name!r} to go to", "give rad")
        joint.refuse_degrees(goal)
        end, warning = joint.check(goal)
        assert end is not None  # the goal is finite
        if warning:
            joint.warn(warning, "position")
        if not joint.torque_enabled:
            servo.torque_on()
        return path_start(servo), end

    # ---- the servos by name

    def __getitem__(self, name: str | int) -> Servo:
        try:
            return list(self._servos.values())[name] if isinstance(name, int | np.integer) else self._servos[name]
        except (LookupError, TypeError):  # TypeError: a list, or a slice
            why = f"robot {self.rig.name!r} has no servo {name!r}"
            raise UnknownServo(str(name), why, f"it has: {', '.join(self._servos)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._servos)

    def __len__(self) -> int:
        return len(self._servos)

    # ---- sensors

    @property
    def sensors(self) -> Mapping[str, Sample | None]:
        """Return the sample of each sensor at the end of the last step; None while a sensor gives none."""
        return MappingProxyType(self._sensed)

    @property
    def imu(self) -> ImuSample | None:
        """Return the sample of the rig's first IMU at the end of the last step; None without an IMU or a sample."""
        return next((sample for sample in self._sensed.values() if isinstance(sample, ImuSample)), None)

    # ---- start, change and end

    def stop(self) -> Mapping[str, BusError]:
        """Switch every motor off now, and keep them off until `resume`; may be called from any thread.

        Commands that would switch a motor on (`set_position`, `torque_on`, …) raise `RobotStopped`. Steps continue;
        they repeat torque-off to servos that have not confirmed it.

        Returns:
            The servos that have not confirmed that their torque is off, by name.

        Raises:
            UsageError: a process forked from the robot's own; nothing was sent.
        """
        self._connection.refuse_forked()
        self._stopped = True
        for joint in self._joints.values():
            joint.stopped = True
            joint.note_off()
            if isinstance(joint.drive, IdealDrive):
                joint.drive.power(on=False)
        left = self._connection.limp()
        self._unconfirmed_off = left or None  # None: repeat once, because a running step may have sent a goal
        self._insist_at = -math.inf
        return left

    def resume(self) -> None:
        """Allow motors to be switched on again after `stop`. They stay off until the next command.

        After a signal that did not end the program, this lets other threads than the main one command the robot again.

        Raises:
            UsageError: a process forked from the robot's own.
        """
        self._connection.refuse_forked()
        self._stopped = False
        self._connection.resume()
        self._unconfirmed_off = {}
        for joint in self._joints.values():
            joint.stopped = False

    @property
    def stopped(self) -> bool:
        """Return whether the robot was stopped and not resumed."""
        return self._stopped

    @property
    def closed(self) -> bool:
        """Return whether the robot is closed: steps return -1, and commands raise `UsageError`."""
        return self._connection.closed

    def view(self, *, port: int | None = None, host: str = "127.0.0.1", open: bool = True) -> Any:
        """Show this robot live in a browser, with controls; see `axbridge.view.page.attach`.

        The page shows the steps of this program. It is closed with the robot.

        Args:
            port: Port of the page; by default a free one from 8080 on.
            host: Address to listen on; from another machine the page needs the printed token.
            open: Open the browser.

        Returns:
            The `axbridge.view.page.LivePage`.

        Raises:
            UsageError: the extra `view` is not installed, the port is taken, or the robot is closed.
        """
        self._connection.refuse_closed()
        from axbridge.view.page import attach  # a room above this one, imported only when it is needed

        return attach(self, port=port, host=host, browser=open)

    def switch(self, backend: BackendName, *, port: str | None = None) -> None:
        """Change to another backend while the controller runs; servos, settings and time stay.

        Motors that were on are switched on there at their present position, with torque rising within half a second.
        Earlier position goals are void; a speed or torque acts again. A motor that is shut down on the new backend
        stays off. The old backend is closed by the rig's `on_exit` policy.

        Args:
            backend: ``"sim"``, ``"real"`` or ``"twin"``.
            port: As of `axbridge.open`; by default the port that was given last.

        Raises:
            UsageError: the robot is closed, or was not made by `axbridge.open`; a port for ``sim``.
            AxBridgeError: the new backend cannot be opened, or a servo does not answer; nothing has changed.
        """
        if self.closed or self._opener is None:
            hint = "open it with axbridge.open, and before closing it"
            raise UsageError("this robot cannot change its backend", hint)
        self._connection.refuse_closed()  # a forked child would end the parent's connection
        new = Connection(self.rig, self._opener(backend, port), self._seed)
        try:
            new.open(self._goal_limits, self._trip)
            on = [name for name, joint in self._joints.items() if joint.torque_enabled and name not in new.withheld]
            new.soften(on, _SOFT_START)
            here = {name: new.drives[name].power(on=True) for name in on}
        except BaseException:
            new.close()
            raise
        with self._stepping:
            old, self._connection, self._pose_verified = self._connection, new, False
            if old.closed:  # another thread has called `close` in between
                new.close()
            new.refuse_closed()
            for name, joint in self._joints.items():
                joint.connection, joint.drive = new, new.drives[name]
                joint.setpoints.gains_set += joint.setpoints.gains_set > 0  # the new drive applies the gains
                if name in here:
                    joint.void_goal(here[name])
                elif joint.setpoints.enabled:
                    joint.note_off()
            if self._stopped:  # another thread has called `stop` in between
                self.stop()
            self._sampling.rewire()
            self._watch_backend()
            old.close()
            for name in on:
                self._joints[name].keep_off()
            began = new.backend.clock.now()
            self._start = began - self.time
            faults = self._receive()
            for joint in self._joints.values():  # before the observers: a live page commands in its own
                joint.mark_turns_unknown()
            self._finish(0.0, began, began, faults, {})

    def _goal_limits(self, name: str) -> tuple[float, float]:
        joint = self._joints[name]
        return joint.min_position, joint.max_position

    def close(self) -> None:
        """Switch every motor off and release ports and worlds; may be called twice.

        A `ControlWarning` names servos whose commands were not sent by a step, if the program waited after them.
        """
        try:
            end = time.monotonic()
            self._connection.close()
        finally:
            self._connection.close()  # again, if an exception came before the first call
            while self._observers:
                _, closed = self._observers.pop(0)
                closed()
        _warn_of_unsent(self._unsent, end)

    def __enter__(self) -> Robot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- facts

    @property
    def bus_statistics(self) -> dict[str, dict[str, Any]]:
        """Return by bus: cycle rate, cycle times (s), and lost, late and damaged packets by id; plain data."""
        return self._connection.statistics()

    @property
    def withheld(self) -> frozenset[str]:
        """Return the servos that get no goals until `Servo.recover`: they are shut down, or were switched off."""
        return self._connection.withheld | self._connection.switched_off

    @property
    def causes(self) -> Mapping[str, Sequence[Cause]]:
        """Return why servos do not follow their commands, by name; on a twin also why they differ from their models."""
        by_servo: dict[str, list[Cause]] = self._torque_watch.causes(self.time)
        for name in self._stall_watch.blocked:
            by_servo.setdefault(name, []).append("blocked")
        for name, causes in ({} if self._twin is None else self._twin.causes(self.time)).items():
            by_servo[name] = [*dict.fromkeys([*by_servo.get(name, []), *causes])]
        return by_servo

    @property
    def simulation(self) -> Simulation | None:
        """Return the functions of a simulation: faults, true values, the base, a twin's shadow.

        None on a real bus without virtual servos.
        """
        return self._simulation

    def _watch_backend(self) -> None:
        """Connect the torque watch, the stall watch, the simulation and the twin to a new backend."""
        connection, simulated = self._connection, self._connection.backend.simulated
        self._ideal = [joint.drive for joint in self._joints.values() if isinstance(joint.drive, IdealDrive)]
        self._drawn = 0.0 if simulated is None else simulated.energy()
        self._torque_watch = TorqueWatch(connection, self._joints)
        self._stall_watch = StallWatch(connection, self._joints)
        self._twin = Twin(self.rig, connection, self._servos) if self.backend == "twin" else None
        world, twin = connection.backend.world, self._twin
        self._simulation = None
        if world is not None:
            self._simulation = Simulation(
                world,
                lambda name, time: self._sampling.state_in(world, name, time, self._start),
                lambda: {} if twin is None else twin.states(self._start),
            )

    @property
    def name(self) -> str:
        """Return the rig's name."""
        return self.rig.name

    @property
    def time(self) -> float:
        """Return the time since the robot was opened, s: the exact sum of the requested periods."""
        return self._time_ms / 1000

    @property
    def backend(self) -> BackendName:
        """Return ``sim``, ``real`` or ``twin``."""
        return self._connection.backend.name

    @property
    def origin(self) -> dict[str, str]:
        """Return the source of the samples, as in a recording; see `axbridge.robot.backend.Backend.origin`."""
        return self._connection.backend.origin

    @property
    def mode(self) -> int:
        """Return 0 for a simulation, 1 for a real robot, 2 for a remote one (a networked port)."""
        return self._connection.backend.mode

    @property
    def battery_energy(self) -> float:
        """Return the remaining energy, J; -1.0 without a battery. On a real robot it is only an estimate."""
        return -1.0 if math.isnan(self._battery) else self._battery

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.time:.2f} s after the start"
        return f"<Robot {self.name!r} on {self.backend}: {plural(len(self), 'servo')}, {state}>"


def _warn_of_unsent(commanded: dict[str, float], end: float | None = None) -> None:
    """Warn of commands that no step has sent, if the program waited until `end`, s, and no exception ended it."""
    since = (time.monotonic() if end is None else end) - _WAITED
    unsent = sorted(name for name, moment in commanded.items() if moment <= since)
    commanded.clear()
    if unsent and sys.exc_info()[1] is None and not hasattr(sys, "last_value"):
        warn(f"{plural(len(unsent), 'command')} never sent: call step() after a command ({', '.join(unsent)})")


def path_start(servo: Servo) -> float:
    """Return the start of a servo's path, rad or m: its target if it is near it, else its position.

    A wheel is stopped. A joint that only holds starts at its target: its latest sample may be older than an X servo's
    turn reset.
    """
    if servo.torque_enabled:
        servo._joint.enter_position()  # noqa: SLF001 - as of `Robot`
    here, target = servo.position, servo.target_position
    follows = abs(target - here) < FOLLOWS or servo._joint.setpoints.holding  # noqa: SLF001 - as of `Robot`
    return target if servo.torque_enabled and follows else here
