"""A robot: its servos by name, and the step that moves commands out and samples in.

`step(ms)` sends what was commanded since the last one, waits for the tick, then reads every servo: commands given
before a step act in that step, and the samples are those of its end. `exchange()` does both right now, without waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from axbridge.backends.backend import REAL, Backend, BackendName
from axbridge.bus.cycle import Cycle
from axbridge.errors import BusError, UnknownServo, UsageError
from axbridge.rig import Rig
from axbridge.safety import Safety
from axbridge.servo import Servo
from axbridge.state import ServoState

__all__ = ["Robot", "StepReport"]


@dataclass(frozen=True)
class StepReport:
    """What the last step did; times in s on the robot's clock.

    Attributes:
        requested: Length of the step asked for, ms.
        actual: Length it took, ms.
        commanded: When the command packets had been sent.
        sampled: When each servo took its sample.
        errors: Bus errors by servo name.
    """

    requested: float
    actual: float
    commanded: float
    sampled: Mapping[str, float]
    errors: Mapping[str, BusError] = field(default_factory=dict)


class Robot(Mapping[str, Servo]):
    """Servos by name; a context manager that leaves every motor off. Made by `axbridge.open`.

    Raises:
        BusError: a servo of the rig does not answer.
    """

    def __init__(self, rig: Rig, backend: Backend) -> None:
        self.rig = rig
        self._backend = backend
        self._closed = False
        self._time = 0.0
        self._start = backend.clock.now()
        self._servos = {
            config.name: Servo(
                config, rig.profile_of(config), rig.model_of(config), backend.buses[config.bus], self._now
            )
            for config in rig.servos
        }
        self._cycles = {
            name: Cycle(bus, [servo._cycle_servo() for servo in self._on(name)])  # noqa: SLF001 - Servo's other half
            for name, bus in backend.buses.items()
        }
        self._threads = ThreadPoolExecutor(len(self._cycles)) if len(self._cycles) > 1 and backend.mode else None
        self.last_step = StepReport(0.0, 0.0, 0.0, {})
        self._safety = Safety(list(self._cycles.values()), guard=backend.mode == REAL)
        self._exit = ExitStack()
        self._exit.callback(backend.close)
        try:
            if self._threads:
                self._exit.callback(self._threads.shutdown)
            self._exit.enter_context(self._safety)  # left first: motors go off while the ports are open
            self._greet()
            self._start = backend.clock.now()
            self.exchange()
        except BaseException:
            self.close()
            raise

    # ---- the cycle

    def step(self, period: float | None = None) -> float:
        """Send commands, wait until `period` ms after the last step, read every servo.

        Args:
            period: ms; the rig's `basic_time_step_ms` when not given.

        Returns:
            0 when the tick was met, else how late it was, ms. -1 when the controller should end: the robot is closed.

        Raises:
            UsageError: a period that is not positive.
            PortError: a port was lost.
        """
        if self._closed:
            return -1.0
        requested = self.basic_time_step if period is None else float(period)
        if not requested > 0:
            raise UsageError(f"a step of {requested:g} ms is not positive")
        clock = self._backend.clock
        began = clock.now()
        due = self._start + self._time + requested / 1000
        self._safety.feed()
        self._send()
        commanded = clock.now()
        late = max(0.0, commanded - due)
        clock.sleep_until(due)
        self._time += requested / 1000
        self._start += late  # a late step delays the next tick instead of being caught up with
        faults = self._receive()
        self._report(requested, clock.now() - began, commanded, faults)
        return late * 1000

    def exchange(self) -> dict[str, ServoState]:
        """One bus cycle right now: pending goals out, all states in.

        Returns:
            The latest state of every servo; one that did not answer keeps its old one (see `last_step.errors`).

        Raises:
            PortError: a port was lost.
        """
        began = self._backend.clock.now()
        self._send()
        commanded = self._backend.clock.now()
        faults = self._receive()
        self._report(0.0, self._backend.clock.now() - began, commanded, faults)
        return {name: servo.state for name, servo in self._servos.items()}

    def _send(self) -> None:
        for bus, cycle in self._cycles.items():
            goals = {s.name: goal for s in self._on(bus) if (goal := s._goal()) is not None}  # noqa: SLF001
            if goals:
                cycle.send(goals)

    def _receive(self) -> dict[str, BusError]:
        work = self._threads.map if self._threads else map
        faults: dict[str, BusError] = {}
        for result in work(Cycle.receive, self._cycles.values()):
            for name, sample in result.states.items():
                self._servos[name]._take(sample, self._start, self._time)  # noqa: SLF001
            faults.update(result.faults)
        return faults

    def _report(self, requested: float, actual: float, commanded: float, faults: dict[str, BusError]) -> None:
        sampled = {name: servo.state.time for name, servo in self._servos.items()}
        self.last_step = StepReport(requested, actual * 1000, commanded - self._start, sampled, faults)

    def _on(self, bus: str) -> Iterator[Servo]:
        return (servo for servo in self._servos.values() if servo.config.bus == bus)

    # ---- start and end

    def _greet(self) -> None:
        """Find every servo, and write the register settings the rig asks for where they differ."""
        missing = {}
        for servo in self._servos.values():
            try:
                servo.read("model_number")
                for register, value in servo.config.registers.items():
                    if servo.read(register) != value:
                        servo.write(register, value)
            except BusError as error:
                missing[servo.id] = error
        if missing:
            raise next(iter(missing.values()))

    def close(self) -> None:
        """Switch every motor off and release ports and worlds; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._exit.close()

    def __enter__(self) -> Robot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- facts

    def shadow(self) -> dict[str, ServoState]:
        """Twin backend: the simulated servos' states at this moment, on the simulation's clock; else empty."""
        states: dict[str, ServoState] = {}
        for name, follow in self._backend.shadows.items():
            result = Cycle(follow(), self._cycles[name].servos).receive()
            states |= {s.name: s._state_of(result.states[s.name], 0.0) for s in self._on(name)}  # noqa: SLF001
        return states

    def _now(self) -> float:
        return self._time

    @property
    def time(self) -> float:
        """S since the robot was opened, by steps: an exact sum of the periods asked for."""
        return self._time

    @property
    def backend(self) -> BackendName:
        """``sim``, ``real`` or ``twin``."""
        return self._backend.name

    @property
    def mode(self) -> int:
        """0 simulation, 1 real, 2 remote (a networked port)."""
        return self._backend.mode

    @property
    def basic_time_step(self) -> float:
        """Default period of `step`, ms."""
        return self.rig.robot.basic_time_step_ms

    def __getitem__(self, name: str) -> Servo:
        try:
            return self._servos[name]
        except KeyError:
            known = ", ".join(self._servos)
            raise UnknownServo(name, f"robot {self.rig.name!r} has no servo {name!r}", f"it has: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._servos)

    def __len__(self) -> int:
        return len(self._servos)
