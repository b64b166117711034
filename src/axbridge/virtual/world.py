"""A simulated rig: engine, motors, virtual servos and lines; it is also their clock."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.bus.rows import RawState, decoded
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.servo.columns import State
from axbridge.sim.bank import Bank
from axbridge.sim.engine import Engine
from axbridge.sim.engines.choice import chosen
from axbridge.sim.engines.ideal_joints import IdealJoint
from axbridge.virtual.alarms import Watch
from axbridge.virtual.faults import FAULTS, Targets, parse_faults
from axbridge.virtual.line import Line
from axbridge.virtual.mishaps import Fault
from axbridge.virtual.servo import VirtualServo

_SAMPLE_AGE = 0.05  # s: maximum age of a sample; a busy line of many servos needs it
_WATCH_PERIOD = 0.02  # s between firmware checks of temperature, supply and load


class _NullMotor:
    """Bank for a second servo on the same shaft: reads the state and moves nothing."""

    def __init__(self, state: FloatArray) -> None:
        self.state = state

    def set_command(self, index: int, row: list[float], time: float) -> None:
        """Ignore the command."""

    def set_goals(self, rows: list[int], goals: list[tuple[float, float]], time: float) -> None:
        """Ignore the goals."""

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:  # noqa: ARG002 - only the present state
        """Return the present state."""
        return self.state[rows]


class World:
    """A simulated rig; `timing` and `bank` replace those of the rig, `faults` is a spec as in `inject`.

    Raises:
        RigError, ProfileError: the rig cannot be built.
        UsageError: the fault spec has a mistake.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        seed: int = 0,
        timing: Literal["wire", "none"] | None = None,
        faults: str = "",
        bank: Bank | None = None,
    ) -> None:
        self.rig = rig
        self.ideal: dict[str, IdealJoint] = {s.name: IdealJoint(s) for s in rig.servos if s.drive == "ideal"}
        self.engine: Engine | None = None  # None if the bank was given
        if bank is None:
            from axbridge.virtual.assembly import build_bank

            bank = own = build_bank(rig, seed=seed, ideal=self.ideal.values())
            self.engine = own.engine
        self.bank = bank
        self.doubles: AbstractSet[str] = frozenset()  # names of servos that stand for real ones: these have no faults
        self._rated = bank.supply.copy()  # V, supply of each motor
        self._now = 0.0
        self._build(seed, timing)
        if faults:
            self.inject(faults)

    def _build(self, seed: int, timing: Literal["wire", "none"] | None) -> None:
        """Build servos with factory values and the rig's registers, and the lines."""
        rig = self.rig
        self.next_watch: float = self._now + _WATCH_PERIOD  # s: next check of the alarms
        configs = rig.dynamixels
        buses = {bus.name: bus for bus in rig.buses}
        self.servos: dict[str, VirtualServo] = {}  # by name
        for index, config in enumerate(configs):
            profile = rig.specs[config.name].profile
            baud = profile.units.baud_register(buses[config.bus].baud)
            assert config.id is not None  # checked by the rig
            assert baud is not None  # checked by `ServoSpec.profile`
            registers = {"id": config.id, "baud_rate": baud, **config.registers}
            self.servos[config.name] = VirtualServo(
                profile, self.bank, index, zero=config.zero, registers=registers, time=self._now
            )
        self._rows = list(self.servos.values())
        self._alarms = Watch()
        self.lines: dict[str, Line] = {  # by name of the bus
            bus.name: Line(
                [self.servos[config.name] for config in configs if config.bus == bus.name],
                baud=bus.baud,
                timing=timing or bus.bus_timing,
                seed=seed * 1000 + place,
            )
            for place, bus in enumerate(rig.buses)
        }
        self._targets = Targets(self.lines.values(), self._rows, self.bank.supply, self._rated, self._copy_of, self.now)
        self._events: list[tuple[float, int, Fault, bool]] = []  # time, order, fault, whether it ends
        self._order = itertools.count()  # of events at the same time
        for line in self.lines.values():
            line.on_turn = self._strike

    @property
    def engine_name(self) -> str:
        """``bullet``, ``mujoco`` or ``none``; ``pendulums`` for a rig without a world."""
        world = self.rig.world
        return "pendulums" if world is None else chosen(world.engine, ideal=bool(self.ideal))

    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._now

    def sleep_until(self, due: float, before_change: Callable[[], None] = lambda: None) -> None:
        """Advance the simulation to `due`; run alarms and faults on the way, and `before_change` before each."""
        while self.next_watch <= due:
            self._move_to(self.next_watch)
            self._watch(before_change)
        self._move_to(due)

    @property
    def next_event(self) -> float:
        """Time when the next fault starts or ends, s; infinite without one."""
        return self._events[0][0] if self._events else math.inf

    def truths(self, servos: Sequence[str], times: Sequence[float]) -> FloatArray:
        """Return angle (rad) and torque (N·m) of shafts, servo side, each at its own time (s), (servos, 2).

        NaN for times more than 50 ms ago.
        """
        recent = [self._now - _SAMPLE_AGE <= time <= self._now for time in times]
        rows = np.array([self.servos[servo].row for servo in servos], dtype=int)
        known = [time if is_recent else self._now for time, is_recent in zip(times, recent, strict=True)]
        states = self.bank.sampled(rows, known)[:, [State.ANGLE, State.TORQUE]]
        return np.where(np.array(recent, dtype=bool)[:, None], states, math.nan)

    def sample(self, servo: str, time: float | None = None) -> RawState:
        """Return a servo's registers as a bus reads them now, or at `time` (s), at most 50 ms ago.

        It sends no packet, so that no time passes.
        """
        read, when = self.servos[servo], self._now if time is None else time
        data = read.peek(*read.protocol.usual, when)
        position, speed, load, voltage, temperature = (
            int(decoded(read.protocol, data, name)[0]) for name in RawState._fields[1:6]
        )
        return RawState(when, position, speed, load, voltage, temperature, read.alarms.bits)

    def energy(self) -> float:
        """Return the energy that the motors have drawn since the start, J: the integral of U·i."""
        return float(self.bank.state[:, State.ENERGY].sum())

    def place(self, servo: str, angle: float) -> None:
        """Put a servo's shaft at an angle (rad, servo side, as read by its sensor), at rest."""
        self.bank.place(self.servos[servo].row, angle)

    def inject(self, spec: str) -> None:
        """Set faults from now on (see `axbridge.virtual.faults.parse_faults`); times in them count from now.

        Raises:
            UsageError: the spec has a mistake, or names an id that is not on a bus or only of a real servo.
        """
        items = parse_faults(spec)
        virtual = [servo.id for name, servo in self.servos.items() if name not in self.doubles]
        for fault in items:
            id_ = fault.turn.id if fault.id is None and fault.turn else fault.id
            if id_ is None or id_ in virtual:
                continue
            real = any(servo.id == id_ for servo in self._rows)
            if real or fault.turn is None:  # a packet to an absent servo can be struck
                why = "that servo is real, and only virtual servos have faults" if real else "no servo has that id"
                raise UsageError(f"fault {fault.kind}:{id_}: {why}", f"there are {', '.join(map(str, virtual))}")
        for fault in items:
            if fault.kind == "none":
                self._events.clear()
                for line in self.lines.values():
                    line.expected.clear()
                for name, kind in FAULTS.items():
                    kind.end(self._targets, Fault(name))
            elif fault.turn is not None:
                for line in self.lines.values():
                    line.expected.append((fault.turn, fault.turn.number, fault))
            elif FAULTS[fault.kind].form == "event":
                self._schedule(fault.at, fault)
            else:
                FAULTS[fault.kind].start(self._targets, fault)

    def reset(self, *, seed: int = 0, timing: Literal["wire", "none"] | None = None, faults: str = "") -> None:
        """Restart without faults: new servos on new lines, motors at the start without torque; time continues."""
        self.inject("none")
        self.bank.supply[:] = self._rated
        self.bank.reset()
        self._build(seed, timing)
        self.inject(faults)

    def power_cycle(self) -> None:
        """Switch every servo off and on again: EEPROM is kept, RAM is reset."""
        for servo in self._rows:
            servo.power_cycle(self._now)

    def close(self) -> None:
        """Release the engine; may be called twice."""
        self.bank.close()

    def _watch(self, before_change: Callable[[], None]) -> None:
        """Strike the due faults, and check the alarms of every servo."""
        while self.next_event <= self._now:
            before_change()
            self._strike(*heapq.heappop(self._events)[2:])
        limits = [servo.alarm_limits for servo in self._rows]
        for row in self._alarms.polled(limits, self.bank.state):
            before_change()
            self._rows[row].monitor(self.bank.state[row].tolist(), self._now)
        self.next_watch = min(self._now + _WATCH_PERIOD, self.next_event)

    def _strike(self, fault: Fault, ends: bool = False) -> None:
        kind = FAULTS[fault.kind]
        if ends:
            kind.end(self._targets, fault)
            return
        kind.start(self._targets, fault)
        lasts = kind.usually if fault.duration is None else fault.duration
        if lasts is not None:
            self._schedule(lasts, fault, ends=True)

    def _schedule(self, delay: float, fault: Fault, *, ends: bool = False) -> None:
        due = self._now + delay
        heapq.heappush(self._events, (due, next(self._order), fault, ends))
        self.next_watch = min(self.next_watch, due)

    def _copy_of(self, servo: VirtualServo) -> VirtualServo:
        """Return a second servo with the same registers and without a motor."""
        copy = VirtualServo(servo.profile, _NullMotor(self.bank.state), servo.row, zero=servo.zero, time=self._now)
        copy.table.data[:] = servo.table.data
        copy.firmware.keep()
        copy.power_on(self._now, {"id": servo.id, "present_position": servo.table["present_position"]})
        copy.busy_until = self._now
        return copy

    def _move_to(self, due: float) -> None:
        if due > self._now:
            self.bank.advance(due)
            self._now = due
