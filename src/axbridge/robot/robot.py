"""A robot: its servos by name, and the step that moves commands out and samples in.

`step(ms)` sends what was commanded since the last one, waits for the tick, then reads every servo: commands given
before a step act in that step, and the samples are those of its end. `exchange()` does both right now, without waiting.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from axbridge.arrays import FloatArray
from axbridge.bus.cycle import BusEvent, Cause
from axbridge.config.rig import Rig
from axbridge.control import minimum_jerk
from axbridge.control.battery import Battery
from axbridge.control.coupled_motors import Limits, couplings, sibling_limits
from axbridge.errors import AxBridgeError, BusError, PortError, RigError, UnknownServo, UsageError
from axbridge.robot.allowance import allowance
from axbridge.robot.backends.backend import SIMULATION, Backend, BackendName
from axbridge.robot.connection import Connection
from axbridge.robot.possible import impossible
from axbridge.robot.residuals import BY_HAND, SHUT_DOWN, Residuals
from axbridge.robot.sensors.sensor import ImuSample, Sample
from axbridge.robot.servo import Servo
from axbridge.robot.simulation import Simulation
from axbridge.robot.warn import warn
from axbridge.servo.state import ServoState

__all__ = ["Observer", "Robot", "StepReport"]

_log = logging.getLogger(__name__)
_SOFT_START = 0.5  # s in which torque rises after a change of backend
_THERE = {"rotational": math.radians(2), "linear": 0.002}  # rad, m: this near a goal a joint has arrived
_PATIENCE = 0.5  # s that a joint may come after its goal
_INSIST = 0.25  # s between attempts to switch off what has not confirmed
_LATE = 0.1  # of a step: what is later counts as late for a twin
_FOLLOWS = 0.2  # rad or m: a joint this near its target goes on from the target, else from where it is


@dataclass(frozen=True)
class StepReport:
    """What the last step did; times in s on the robot's clock.

    Attributes:
        requested: Length of the step asked for, ms.
        actual: Length it took, ms.
        commanded: When the servos had their goals: the end of the command packets on the line.
        sampled: When each servo took its sample.
        errors: Why a servo did not answer, by its name: BusTimeout, CorruptPacket, PortError.
        events: What changed on the buses: a servo missing, returned, with a fault or beyond a limit; a port lost, back.
            On a twin also why a servo does not do as its model says: blocked, slipping, extra load, …
        late: How late it was, ms; 0 = on time.
        stood_still: For how long the servos of a virtual bus had stood still by then, s: its machine was too busy.
    """

    requested: float
    actual: float
    commanded: float
    sampled: Mapping[str, float]
    errors: Mapping[str, BusError] = field(default_factory=dict)
    events: tuple[BusEvent, ...] = ()
    late: float = 0.0
    stood_still: float = 0.0


Observer = Callable[[StepReport, Mapping[str, ServoState]], None]


class Robot(Mapping[str, Servo]):
    """Servos by name (or index); a context manager that leaves every motor off. Made by `axbridge.open`.

    Args:
        rig: The robot.
        backend: What it runs on.
        opener: Opens another backend by name and port, for `switch`.

    Raises:
        BusError: a servo of the rig does not answer.
        UnsupportedOperation: the backend cannot drive the rig.
    """

    def __init__(
        self, rig: Rig, backend: Backend, opener: Callable[[str, str | None], Backend] | None = None, seed: int = 0
    ) -> None:
        self.rig = rig
        self._opener = opener
        self._seed = seed
        self._closed = False
        self._time_ms = 0.0
        self._start = backend.clock.now()
        self._battery = None if rig.robot.battery is None else Battery(rig.robot.battery[0])
        self._powered = True
        self._drawn = 0.0  # J, by the simulation's meter at the last look
        self._observers: list[Observer] = []
        self._stopped = False
        self._powered_still: Mapping[str, BusError] | None = {}  # after `stop`: who has not confirmed that it is off
        self._insist_at = -math.inf
        self._closing: list[Callable[[], None]] = []
        self._connection = Connection(rig, backend, seed)
        self._sensed: dict[str, Sample | None] = dict.fromkeys(sensor.name for sensor in rig.sensors)
        self._lost: set[str] = set()
        self._ports_lost: set[str] = set()  # reasons that were said
        self._on_since = 0.0  # when no motor was on last, s
        self._believed = False  # that it stands as its servos say: looked at since its motors are on
        self._simulation = self._simulation_of(self._connection)
        self._servos = {
            config.name: Servo(
                config, self._connection.drives[config.name], seed, self._recover, self.goto, self._refuse_closed
            )
            for config in rig.servos
        }
        self._residuals = Residuals(
            {
                config.name: allowance(rig, config, rig.model_of(config))
                for config in rig.servos
                if config.drive == "dynamixel"
            }
        )
        self._ideal = [servo for servo in self._servos.values() if servo.config.drive == "ideal"]
        self._couple()
        self.last_step = StepReport(0.0, 0.0, 0.0, {})
        self._connection.open(self._reach, self._trip)
        try:
            self._start = backend.clock.now()
            self.exchange()
        except BaseException:
            self.close()
            raise

    # ---- the cycle

    def step(self, period: float | None = None) -> float:
        """Send commands, wait until `period` ms after the last step, read every servo.

        A servo that does not answer or a lost port is no exception but a fault of this step: see `last_step.errors`
        and `last_step.events`. The other servos go on; what was lost is looked for until it is back.

        Args:
            period: ms; the rig's `basic_time_step_ms` when not given.

        Returns:
            0 when the tick was met, else how late it was, ms. -1 when the controller should end: the robot is closed,
            or a signal has come, and this is not the main thread (see `resume`).

        Raises:
            UsageError: a period that is not positive and finite, or a process that was forked from the robot's own.
            RobotStopped: a signal comes in this step, and this is not the main thread.
            BusError: a change of control mode needed a register that could not be written.
            RigError: on copper, before the first goals of the whole robot: its servos report a pose that cannot be.
                Nothing has moved then, and every motor is off.
        """
        if self.closed or self._connection.refused:
            return -1.0
        self._refuse_closed()
        requested = self.basic_time_step if period is None else float(period)
        if not 0 < requested < math.inf:
            raise UsageError(f"a step of {requested:g} ms is not positive and finite")
        clock = self._connection.backend.clock
        began = clock.now()
        end = self._time_ms + requested
        due = self._start + end / 1000
        commanded = self._send(requested)
        late = max(0.0, clock.now() - due)
        for tick in self._ticks(end):
            self._pass_until(tick)
        clock.sleep_until(due)
        self._time_ms = end
        self._start += late  # a late step delays the next tick instead of being caught up with
        faults = self._receive()
        self._report(requested, clock.now() - began, commanded, faults, late * 1000)
        return self.last_step.late

    def exchange(self) -> dict[str, ServoState]:
        """One bus cycle right now: pending goals out, all states in.

        Returns:
            The latest state of every servo; one that did not answer keeps its old one (see `last_step.errors`).

        Raises:
            UsageError: the robot is closed.
            BusError: as `step`.
        """
        self._refuse_closed()
        clock = self._connection.backend.clock
        began = clock.now()
        commanded = self._send(self.basic_time_step)
        faults = self._receive()
        self._report(0.0, clock.now() - began, commanded, faults)
        return {name: servo.state for name, servo in self._servos.items()}

    def _refuse_closed(self) -> None:
        """Refuse what has no effect any more.

        Raises:
            UsageError: says so.
        """
        if self.closed:
            raise UsageError(f"robot {self.rig.name!r} is closed", "open it again with axbridge.open")
        if self._connection.foreign:
            raise UsageError(
                f"robot {self.rig.name!r} belongs to the process that opened it, not to one forked from it",
                "command it there, or open it here alone",
            )

    def _ticks(self, end: float) -> Iterator[float]:
        """Times, ms, at which something happens inside a step: ideal joints and batteries live by the basic step."""
        if self._battery is None and not self._ideal:
            return
        basic = self.rig.control_step_ms
        tick = (self._time_ms // basic + 1) * basic
        while tick < end - 1e-6:
            yield tick
            tick += basic
        yield end

    def _pass_until(self, tick: float) -> None:
        """Let the world go on to `tick`, ms, at most one basic step ahead; then look at joints and battery."""
        basic = self.rig.control_step_ms
        world = self._connection.backend.simulated
        if world is not None and self._ideal and abs(self._time_ms / basic - round(self._time_ms / basic)) < 1e-9:
            world.ideal.control(basic / 1000)
        passed = tick - self._time_ms
        self._connection.backend.clock.sleep_until(self._start + tick / 1000)
        self._time_ms = tick
        if self._battery is not None:
            self._drain(self._battery, passed / 1000)
        for servo in self._ideal:  # not in the step in which the battery ran empty
            servo._take(None, self._start)

    def _drain(self, battery: Battery, seconds: float) -> None:
        power = self.rig.robot.cpu_consumption
        metered = self._simulation if self.mode == SIMULATION else None
        for servo in self._servos.values() if self._powered else ():
            if servo.config.drive == "ideal":
                power += servo._power_now(self._start)
            elif metered is None:
                power += servo.power
        if metered is not None:
            drawn, self._drawn = self._drawn, metered.energy()
            power += (self._drawn - drawn) / seconds
        battery.drain(power, seconds)
        if battery.empty and self._powered and self.mode == SIMULATION:
            self._powered = False
            for servo in self._servos.values():
                servo._cut()

    def _trip(self, names: frozenset[str]) -> None:
        """The safety net has switched these motors off: they stay off until the program asks for them anew."""
        on = [name for name in names if self._servos[name].torque_enabled]
        for name in on:
            self._servos[name]._switched_off()
        if on:
            silence = self.rig.safety.stale_command_ms
            _log.warning("no step for %g ms: the motors are off until set_position or torque_on", silence)

    def _send(self, period: float) -> float:
        """Send goals; when the servos had them, s on the backend's clock."""
        self._connection.feed()
        if self._powered_still != {} and (now := self._connection.backend.clock.now()) >= self._insist_at:
            self._insist_at = now + _INSIST
            self._powered_still = self._connection.limp()
        goals = {s.name: goal for s in self._servos.values() if (goal := s._command(period / 1000)) is not None}
        if self.mode != SIMULATION:
            whole = len(goals) == len(self._servos)
            if whole and not self._believed:
                self._refuse_impossible_pose()
            self._believed = whole or (self._believed and bool(goals))
        return self._connection.send(goals)

    def _refuse_impossible_pose(self) -> None:
        """Before the first goals of the whole robot on copper: a wrong zero or direction would tear at its joints.

        Raises:
            RigError: the servos report what cannot be; every motor is off again.
        """
        wrong = impossible(
            self.rig,
            {name: servo.position for name, servo in self._servos.items()},
            {name: (servo.min_position, servo.max_position) for name, servo in self._servos.items()},
        )
        if not wrong:
            return
        for servo in self._servos.values():
            servo._switched_off()
        left = self._connection.limp()
        off = (
            f"{', '.join(left)} may be on: cut the servo supply"
            if left
            else "nothing has moved, and all motors are off"
        )
        told = "; ".join(f"{name} {why}" for name, why in wrong.items())
        raise RigError(
            self.rig.path,
            "",
            f"this cannot be: {told}; {off}",
            "if a joint is really there, lead it back by hand; else the rig has its id, zero or direction wrong: "
            "`axbridge verify` finds which, and `axbridge calibrate` mends it",
        )

    def _receive(self) -> dict[str, BusError]:
        for name in self._sensed:
            self._sense(name)
        samples, faults = self._connection.receive()
        servos, start = self._servos, self._start
        for name, sample in samples.items():
            servos[name]._take(sample, start)
        for servo in self._ideal:
            if math.isnan(servo.sampled_at):
                servo._take(None, start)
        return faults

    def _sense(self, name: str) -> None:
        """Take a sensor's sample; say when it is lost, and when it is back."""
        sensor = self._connection.sensors.get(name)
        self._sensed[name] = sample = None if sensor is None else sensor.read(self._start)
        if sensor is not None and sample is None and name not in self._lost:
            self._lost.add(name)
            warn(f"sensor {name!r} tells nothing: {sensor.trouble}")
        elif sample is not None and name in self._lost:
            self._lost.remove(name)
            _log.warning("sensor %r is back", name)

    def _report(
        self, requested: float, actual: float, commanded: float, faults: dict[str, BusError], late: float = 0.0
    ) -> None:
        self._say_lost(faults)
        sampled = {name: servo.sampled_at for name, servo in self._servos.items()}
        events = self._connection.events + self._beside_twin(late=late > _LATE * requested)
        still = self._connection.stood_still
        self.last_step = StepReport(
            requested, actual * 1000, commanded - self._start, sampled, faults, events, late, still
        )
        if self._observers:
            states = {name: servo.state for name, servo in self._servos.items()}
            for observer in tuple(self._observers):
                if observer in self._observers:  # an earlier one may have sent it away
                    observer(self.last_step, states)

    def _say_lost(self, faults: Mapping[str, BusError]) -> None:
        """Say why a port is lost and with whom, each reason once, and when it is back."""
        lost = {fault.message for fault in faults.values() if isinstance(fault, PortError)}
        for message in sorted(lost - self._ports_lost):
            names = [name for name, fault in faults.items() if fault.message == message]
            who = "all servos" if len(names) == len(self) else ", ".join(names)
            warn(f"{message}: the motors keep their last goals until it is back ({who})")
        if self._ports_lost and not lost:
            _log.warning("every port is back")
        self._ports_lost = lost and self._ports_lost | lost

    def _beside_twin(self, *, late: bool) -> tuple[BusEvent, ...]:
        """Twin: why servos do not do as their models say."""
        if self.backend != "twin" or self._simulation is None:
            return ()
        try:
            twins = self._simulation.shadow()
        except AxBridgeError:
            return ()  # the simulation has failed: that was said, and the robot goes on
        states = {name: servo.state for name, servo in self._servos.items()}
        self._follow_by_hand(states, twins)
        held = self._hold_twin(self._simulation)
        goals = {
            name: servo.goals.position
            if servo.torque_enabled and servo.available_torque == servo.max_torque and not held
            else math.nan
            for name, servo in self._servos.items()
        }
        found = self._residuals.look(self.time, states, twins, goals, late=late)
        return tuple(BusEvent(cause, name) for cause, name in found)

    def _follow_by_hand(self, states: Mapping[str, ServoState], twins: Mapping[str, ServoState]) -> None:
        """Twin: what hands and gravity did to limp joints no model knows, so simulated ones are put where they are."""
        back = {event.name for event in self._connection.events if event.kind == "returned"}
        back |= self._connection.switched_on()  # they may have been led while nobody stepped
        shut_down = {name for name in twins if SHUT_DOWN & states[name].errors}
        limp = {name for name in twins if name in back | shut_down or not self._servos[name].torque_enabled}
        moved = {
            name: states[name].position for name in limp if abs(states[name].position - twins[name].position) > BY_HAND
        }
        if moved or shut_down:
            self._connection.place_shadow(moved, shut_down)

    def _hold_twin(self, simulation: Simulation) -> bool:
        """Twin: somebody holds a robot that stands free until its motors do, so its simulation is held, too.

        Returns:
            Whether it is held now: hands do what no model knows.
        """
        if not any(servo.torque_enabled for servo in self._servos.values()):
            self._on_since = self.time
        return simulation.hand is not None and simulation.hand.holds(self.time - self._on_since)

    def observe(self, observer: Observer, *, closed: Callable[[], None] | None = None) -> Callable[[], None]:
        """Have `observer` called after each step and exchange, with the step's report and every servo's state.

        An error that it raises ends the step's caller, as an error of the step would.

        Args:
            observer: Called after each step.
            closed: Called once when the robot has been closed: its motors are off by then.

        Returns:
            What takes the observer away again; may be called twice.
        """
        self._observers.append(observer)
        if closed is not None:
            self._closing.append(closed)

        def leave() -> None:
            if observer in self._observers:
                self._observers.remove(observer)
                if closed is not None:
                    self._closing.remove(closed)

        return leave

    # ---- whole poses

    def goto(self, pose: Mapping[str, float], duration: float) -> bool:
        """Lead these servos to a pose along minimum-jerk paths, and step until they are there.

        Limp ones are switched on where they are. Where a servo would have to turn faster than its `max_velocity`, the
        way takes longer, with a `ControlWarning`; a goal beyond its limits is clipped, with another.

        Args:
            pose: rad (m for linear joints) by servo name.
            duration: Of the way, s.

        Returns:
            Whether all of them are within 2° (2 mm) of their goals, half a second after the way's end at the latest.
            False, too, when the controller should end.

        Raises:
            UsageError: a time that is not positive and finite, a position that is not finite, or degrees; or the robot
                is closed.
            UnknownServo: the robot has no such servo.
            BusError: as `step`.
        """
        self._refuse_closed()
        if not 0 < duration < math.inf:
            raise UsageError(f"a way of {duration:g} s is not positive and finite", "give seconds")
        ways = {name: self._way(name, float(goal)) for name, goal in pose.items()}
        times = {
            name: minimum_jerk.shortest(end - start, self[name].max_velocity) for name, (start, end) in ways.items()
        }
        slowest = max(times, key=lambda name: times[name], default="")
        if slowest and (needed := times[slowest]) > duration:
            warn(f"servo {slowest!r}: {duration:g} s are too short for its speed: it takes {needed:.2f} s")
            duration = needed
        ticks = max(1, math.ceil(duration * 1000 / self.basic_time_step - 1e-9))
        for tick in range(1, ticks + 1):
            for name, (start, end) in ways.items():
                self[name].set_position(start + (end - start) * minimum_jerk.way(tick / ticks))
            if self.step() == -1:
                return False
        ends = {name: end for name, (_, end) in ways.items()}
        patience = self.time + _PATIENCE
        while not self._is_at(ends) and self.time < patience:
            if self.step() == -1:
                return False
        return self._is_at(ends)

    def _way(self, name: str, goal: float) -> tuple[float, float]:
        """Where a servo starts and ends; it is on afterwards."""
        servo = self[name]
        if not math.isfinite(goal):
            raise UsageError(f"{goal} is no position for {name!r} to go to", "give rad")
        servo._refuse_degrees(goal)
        end, clipped = servo._checked(goal)
        assert end is not None  # it is finite
        if clipped:
            servo._say(clipped, "position")
        if not servo.torque_enabled:
            servo.torque_on()
        here, target = servo.position, servo.target_position
        return (target if abs(target - here) < _FOLLOWS else here), end

    def _is_at(self, pose: Mapping[str, float]) -> bool:
        return all(abs(self[name].position - goal) <= _THERE[self[name].type] for name, goal in pose.items())

    @property
    def positions(self) -> FloatArray:
        """Latest positions of all servos in the rig's order, (n,), rad (m for linear joints)."""
        return np.array([servo.position for servo in self._servos.values()])

    @property
    def velocities(self) -> FloatArray:
        """Latest measured speeds, (n,), rad/s."""
        return np.array([servo.velocity for servo in self._servos.values()])

    @property
    def loads(self) -> FloatArray:
        """Latest loads, (n,), -1..1: the duty that each servo's firmware reports."""
        return np.array([servo.load for servo in self._servos.values()])

    def set_positions(self, positions: ArrayLike) -> None:
        """`Servo.set_position` for every servo, in the rig's order.

        Args:
            positions: (n,), rad (m for linear joints).

        Raises:
            UsageError: not as many positions as servos, or degrees; no servo has got its goal then.
            BusError: a servo does not answer.
        """
        goals = np.asarray(positions, dtype=float)
        if goals.shape != (len(self),):
            raise UsageError(
                f"positions of shape {goals.shape} for {len(self)} servos", f"give one a servo: {', '.join(self)}"
            )
        given = list(zip(self._servos.values(), goals.tolist(), strict=True))
        for servo, goal in given:
            servo._refuse_degrees(goal)
        for servo, goal in given:
            servo.set_position(goal, clip=True)  # asked about already

    # ---- what it senses beside its servos

    @property
    def sensors(self) -> Mapping[str, Sample | None]:
        """What each sensor of the rig told at the end of the last step; None while it is lost, or not there."""
        return MappingProxyType(self._sensed)

    @property
    def imu(self) -> ImuSample | None:
        """What the rig's first IMU told at the end of the last step; None where there is none, and while it is lost."""
        return next((sample for sample in self._sensed.values() if isinstance(sample, ImuSample)), None)

    # ---- start, change and end

    def stop(self) -> Mapping[str, BusError]:
        """Switch every motor off now, and let none be switched on until `resume`; from any thread.

        What would switch one on (`set_position`, `torque_on`, …) raises `RobotStopped`. Steps go on; a servo that does
        not confirm is told again in each of them.

        Returns:
            The servos that have not confirmed that their torque is off, by name.
        """
        self._stopped = True
        for servo in self._servos.values():
            servo._stop(stopped=True)
        left = {} if self.closed else self._connection.limp()
        self._powered_still = left or None  # None: told once more, because a step under way may have sent a goal since
        self._insist_at = -math.inf
        return left

    def resume(self) -> None:
        """After `stop`: let motors be switched on again. They stay off until somebody does.

        Also after a signal that did not end the program: let other threads than the main one command the robot again.
        """
        self._stopped = False
        self._connection.resume()
        self._powered_still = {}
        for servo in self._servos.values():
            servo._stop(stopped=False)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called, and `resume` was not."""
        return self._stopped

    @property
    def closed(self) -> bool:
        """Whether it was closed: steps return -1, and commands are errors."""
        return self._connection.closed

    def view(self, *, port: int | None = None, host: str = "127.0.0.1", open: bool = True) -> Any:
        """Show this robot live in a browser, and take commands from there; see `axbridge.view.attach.attach`.

        The page hangs on the steps of this program. It is closed with the robot.

        Args:
            port: Of the page; a free one from 8080 on when not given.
            host: Whom it serves; another than this machine's own needs the token that is printed.
            open: Open the browser.

        Returns:
            The `axbridge.view.page.Page`.

        Raises:
            UsageError: the extra `view` is not installed, or the port is taken.
        """
        from importlib import import_module  # the one way up: the page stands on robots, and robots know no page

        return import_module("axbridge.view.attach").attach(self, port=port, host=host, browser=open)

    def switch(self, backend: BackendName, *, port: str | None = None) -> None:
        """Go on with another backend while the controller runs: same servos, same settings, same time.

        Motors that were on are switched on where the joint is there (goal := present first), with torque rising within
        half a second; the goals set last then act again. Those that have shut themselves down there stay off. The old
        backend is left as the rig's `on_exit` says.

        Raises:
            UsageError: the robot is closed, or was not made by `axbridge.open`.
            AxBridgeError: the new backend cannot be opened, or a servo does not answer; nothing has changed.
        """
        if self.closed or self._opener is None:
            raise UsageError(
                "this robot cannot change its backend", "open it with axbridge.open, and before closing it"
            )
        new = Connection(self.rig, self._opener(backend, port), self._seed)
        new.open(self._reach, self._trip)
        try:
            on = [name for name, servo in self._servos.items() if servo.torque_enabled and name not in new.withheld]
            new.soften(on, _SOFT_START)
            for name in on:
                new.drives[name].power(on=True)
        except BaseException:
            new.close()
            raise
        old, self._connection = self._connection, new
        self._simulation = self._simulation_of(new)
        for name, servo in self._servos.items():
            servo._rewire(new.drives[name])
            if name not in on:
                servo._switched_off()
        old.close()
        self._drawn = self._simulation.energy() if self._simulation is not None else 0.0
        self._start = new.backend.clock.now() - self.time
        faults = self._receive()
        self._report(0.0, 0.0, new.backend.clock.now(), faults)

    def _couple(self) -> None:
        """Join motors named ``base::member``, and give them the first one's limits, scaled."""
        for base, names in couplings(list(self._servos)).items():
            if len(names) == 1:
                warn(f"servo {names[0]!r} is coupled with nothing: no other {base}::…")
                continue
            servos = {name: self._servos[name] for name in names}
            limits = {name: Limits(*servo._limits, servo.max_velocity) for name, servo in servos.items()}
            wanted, said = sibling_limits(limits, {name: servo.multiplier for name, servo in servos.items()})
            for name, servo in servos.items():
                servo._couple([other for other in servos.values() if other is not servo], wanted[name])
            for message in said:
                _log.warning(message)  # not a ControlWarning: Webots rewrites limits at load without being asked

    def _reach(self, name: str) -> tuple[float, float]:
        servo = self._servos[name]
        return servo.min_position, servo.max_position

    def close(self) -> None:
        """Switch every motor off and release ports and worlds; may be called twice."""
        if not self._closed:
            self._closed = True
            try:
                self._connection.close()
            finally:
                for ended in tuple(self._closing):
                    ended()

    def __enter__(self) -> Robot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- facts

    @property
    def bus_statistics(self) -> dict[str, dict[str, Any]]:
        """By bus: cycle rate and times (s), and what was lost, late or damaged, by id; plain data."""
        return self._connection.statistics()

    @property
    def withheld(self) -> frozenset[str]:
        """Servos that get no goals until `Servo.recover`: they were switched off at a limit, or found shut down."""
        return self._connection.withheld

    @property
    def causes(self) -> Mapping[str, Sequence[Cause]]:
        """Why servos do not do as their simulated twins now, by name; empty on other backends."""
        return self._residuals.present(self.time)

    @property
    def simulation(self) -> Simulation | None:
        """What only a simulation can do: faults, truth, the place of the base, a twin's shadow; None on copper."""
        return self._simulation

    def _simulation_of(self, connection: Connection) -> Simulation | None:
        world = connection.backend.world
        if world is None:
            return None

        def sample(name: str, time: float) -> tuple[ServoState, float]:
            drive, start = connection.drives[name], self._start
            raw = world.sample(name, start + time) if name in world.servos else None
            state = drive.state(raw, start)
            return state, drive.electrical_power(state, self._servos[name].config.consumption_factor)

        return Simulation(world, sample, lambda: connection.shadow(self._start))

    def _recover(self, name: str) -> None:
        self._connection.recover(name)

    @property
    def name(self) -> str:
        """The rig's name."""
        return self.rig.name

    @property
    def time(self) -> float:
        """S since the robot was opened, by steps: an exact sum of the periods asked for."""
        return self._time_ms / 1000

    @property
    def backend(self) -> BackendName:
        """``sim``, ``real`` or ``twin``."""
        return self._connection.backend.name

    @property
    def mode(self) -> int:
        """0 simulation, 1 real, 2 remote (a networked port)."""
        return self._connection.backend.mode

    @property
    def basic_time_step(self) -> float:
        """Default period of `step`, ms."""
        return self.rig.robot.basic_time_step_ms

    @property
    def battery_energy(self) -> float:
        """J left; -1.0 without a battery. On a real robot an estimate by the motor models, which cuts nothing off."""
        return -1.0 if self._battery is None else self._battery.energy

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.time:.2f} s after the start"
        servos = "1 servo" if len(self) == 1 else f"{len(self)} servos"
        return f"<Robot {self.name!r} on {self.backend}: {servos}, {state}>"

    def __getitem__(self, name: str | int) -> Servo:
        if isinstance(name, int):
            return list(self._servos.values())[name]
        try:
            return self._servos[name]
        except KeyError:
            known = ", ".join(self._servos)
            raise UnknownServo(name, f"robot {self.rig.name!r} has no servo {name!r}", f"it has: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._servos)

    def __len__(self) -> int:
        return len(self._servos)
