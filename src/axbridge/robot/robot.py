"""A robot: its servos by name, and the step that moves commands out and samples in.

`step(ms)` sends what was commanded since the last one, waits for the tick, then reads every servo: commands given
before a step act in that step, and the samples are those of its end. `exchange()` does both right now, without waiting.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any

from axbridge import above
from axbridge.config.rig import Rig
from axbridge.errors import BusError, UsageError
from axbridge.robot.backends.backend import SIMULATION, Backend, BackendName
from axbridge.robot.basic_steps import BasicSteps
from axbridge.robot.connection import Connection
from axbridge.robot.pose_check import refuse_impossible
from axbridge.robot.sensors.sensor import ImuSample, Sample
from axbridge.robot.servo import Servo
from axbridge.robot.servos import Servos
from axbridge.robot.simulation import Simulation
from axbridge.robot.torque_watch import TorqueWatch
from axbridge.robot.twin.twin import Twin
from axbridge.servo import checks
from axbridge.state import Cause, Observer, ServoState, StepReport

_log = logging.getLogger(__name__)
_SOFT_START = 0.5  # s in which torque rises after a change of backend
_INSIST = 0.25  # s between attempts to switch off what has not confirmed
_FIRST, _AGAIN = 2.0, 0.02  # s: how long the first answer of a servo may take, and how often it is asked
_LONGEST_STEP = 86_400_000.0  # ms: a day
_LATE = 0.1  # of a step: what is later counts as late for a twin


class Robot(Servos):
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
        self._opener = opener
        self._seed = seed
        self._closed = False
        self._time_ms = 0.0
        self._start = backend.clock.now()
        self._observers: list[tuple[Observer, Callable[[], None]]] = []  # and whom to tell of the end
        self._stopped = False
        self._powered_still: Mapping[str, BusError] | None = {}  # after `stop`: who has not confirmed that it is off
        self._insist_at = -math.inf
        self._connection = Connection(rig, backend, seed)
        self._sensed: dict[str, Sample | None] = {}
        self._believed = False  # that it stands as its servos say: looked at since its motors are on
        super().__init__(
            rig,
            {
                config.name: Servo(
                    config, self._connection.drives[config.name], seed, self._recover, self.goto, self._refuse_closed
                )
                for config in rig.servos
            },
        )
        self._basic_steps = BasicSteps(rig, self._servos.values())
        self._look_beside()
        self.last_step: StepReport = StepReport(0.0, 0.0, 0.0, {})
        self._connection.open(self._reach, self._trip)
        try:
            self._read_all(backend)
        except BaseException:
            self.close()
            raise

    def _read_all(self, backend: Backend) -> None:
        """Read every servo: who plans a way must know where it begins, so one whose answer is lost is asked again."""
        patience = backend.clock.now() + _FIRST
        while True:
            self._start = backend.clock.now()
            self.exchange()
            errors = self.last_step.errors
            if not errors:
                return
            if self._start > patience:
                raise next(iter(errors.values()))
            backend.clock.sleep_until(self._start + _AGAIN)

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
            UsageError: a period that is not positive or longer than a day, or a process forked from the robot's own.
            RobotStopped: a signal comes in this step, and this is not the main thread.
            BusError: a change of control mode needed a register that could not be written.
            RigError: on copper, before the first goals of the whole robot: its servos report a pose that cannot be.
                Nothing has moved then, and every motor is off.
        """
        if self.closed or self._connection.refused:
            return -1.0
        self._refuse_closed()
        requested = self.basic_time_step if period is None else checks.number(period, "a step")
        if not 0 < requested <= _LONGEST_STEP:
            raise UsageError(f"a step of {requested:g} ms: 0 to {_LONGEST_STEP:g} ms can be had", "give ms")
        clock = self._connection.backend.clock
        began = clock.now()
        end = self._time_ms + requested
        due = self._start + end / 1000
        commanded = self._send(requested)
        late = max(0.0, clock.now() - due)
        for now in self._basic_steps.pass_until(end, self._time_ms, self._connection.backend, self._start):
            self._time_ms = now
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
                refuse_impossible(self.rig, self._servos, self._connection.limp)
            self._believed = whole or (self._believed and bool(goals))
        return self._connection.send(goals)

    def _receive(self) -> dict[str, BusError]:
        self._sensed = self._connection.sense(self._start)
        samples, faults = self._connection.receive()
        for name, sample in samples.items():
            self._servos[name]._take(sample, self._start)
        self._torque_watch.look(self.time)
        self._basic_steps.sample_new(self._start)
        return faults

    def _report(
        self, requested: float, actual: float, commanded: float, faults: dict[str, BusError], late: float = 0.0
    ) -> None:
        sampled = {name: servo.sampled_at for name, servo in self._servos.items()}
        events = self._connection.events
        if self._twin is not None and self._simulation is not None:
            events += self._twin.look(self.time, self._start, self._simulation.hand, late=late > _LATE * requested)
        self.last_step = StepReport(requested, actual * 1000, commanded - self._start, sampled, faults, events, late)
        if self._observers:
            states = {name: servo.state for name, servo in self._servos.items()}
            for one in tuple(self._observers):
                if one in self._observers:  # an earlier one may have sent it away
                    one[0](self.last_step, states)

    def observe(self, observer: Observer, *, closed: Callable[[], None] | None = None) -> Callable[[], None]:
        """Have `observer` called after each step and exchange, with the step's report and every servo's state.

        An error that it raises ends the step's caller, as an error of the step would.

        Args:
            observer: Called after each step.
            closed: Called once when the robot has been closed: its motors are off by then.

        Returns:
            What takes the observer away again; may be called twice.
        """
        one = observer, closed or (lambda: None)
        self._observers.append(one)

        def leave() -> None:
            if one in self._observers:
                self._observers.remove(one)

        return leave

    # ---- what it senses beside its servos

    @property
    def sensors(self) -> Mapping[str, Sample | None]:
        """What each sensor of the rig measured at the end of the last step; None while it is lost, or not there."""
        return MappingProxyType(self._sensed)

    @property
    def imu(self) -> ImuSample | None:
        """What the rig's first IMU measured at the end of the last step; None: there is none, or it is lost."""
        return next((sample for sample in self._sensed.values() if isinstance(sample, ImuSample)), None)

    # ---- start, change and end

    def stop(self) -> Mapping[str, BusError]:
        """Switch every motor off now, and let none be switched on until `resume`; from any thread.

        What would switch one on (`set_position`, `torque_on`, …) raises `RobotStopped`. Steps go on; a servo that does
        not confirm gets the same again in each of them.

        Returns:
            The servos that have not confirmed that their torque is off, by name.
        """
        self._stopped = True
        for servo in self._servos.values():
            servo._stop(stopped=True)
        left = {} if self.closed else self._connection.limp()
        self._powered_still = left or None  # None: said once more, because a step under way may have sent a goal since
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
            The `axbridge.view.page.LivePage`.

        Raises:
            UsageError: the extra `view` is not installed, or the port is taken.
        """
        return above.show(self, port=port, host=host, browser=open)

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
        self._look_beside()
        for name, servo in self._servos.items():
            servo._rewire(new.drives[name])
            if name not in on:
                servo._switched_off()
        old.close()
        self._basic_steps.change(new.backend.simulated)
        self._start = new.backend.clock.now() - self.time
        faults = self._receive()
        self._report(0.0, 0.0, new.backend.clock.now(), faults)

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
                for _, closed in tuple(self._observers):
                    closed()

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
        """Servos that get no goals until `Servo.recover`: they have shut themselves down, or were switched off."""
        return self._connection.withheld | self._connection.taken

    @property
    def causes(self) -> Mapping[str, Sequence[Cause]]:
        """Why servos do not do what they are told, by name; beside a twin also why they do not do as that does."""
        found: dict[str, list[Cause]] = self._torque_watch.causes(self.time)
        for name, causes in ({} if self._twin is None else self._twin.causes(self.time)).items():
            found.setdefault(name, []).extend(causes)
        return found

    @property
    def simulation(self) -> Simulation | None:
        """What only a simulation can do: faults, truth, the place of the base, a twin's shadow; None on copper."""
        return self._simulation

    def _look_beside(self) -> None:
        """Meet the simulation of a new backend, the twin in it, and what watches over its torque."""
        connection = self._connection
        self._torque_watch = TorqueWatch(connection, self._servos)
        self._twin = Twin(self.rig, connection, self._servos) if self.backend == "twin" else None
        world, twin = connection.backend.world, self._twin
        self._simulation = (
            None
            if world is None
            else Simulation(
                world,
                lambda name, time: self._servos[name]._look(
                    world.sample(name, self._start + time) if name in world.servos else None, self._start
                ),
                lambda: {} if twin is None else twin.states(self._start),
            )
        )

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
    def battery_energy(self) -> float:
        """J left; -1.0 without a battery. On a real robot an estimate by the motor models, which cuts nothing off."""
        return self._basic_steps.battery_energy

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.time:.2f} s after the start"
        servos = "1 servo" if len(self) == 1 else f"{len(self)} servos"
        return f"<Robot {self.name!r} on {self.backend}: {servos}, {state}>"
