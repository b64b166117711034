"""`axbridge monitor`: show all servos live; with a model also the causes of deviations."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from typing import Annotated, Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from axbridge import BusError, BusTimeout, CorruptPacket, FirmwareProfile, PortError, Rig
from axbridge.bus.commission import read_register
from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.handshake import is_unknown, unknown_model
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import CycleTimes, wire_time
from axbridge.cli.app import DONE, HARDWARE, QUIET, note
from axbridge.cli.exit import Terminated
from axbridge.cli.off import buses_of
from axbridge.cli.options import Result, check_needs, verb
from axbridge.cli.progress import progress
from axbridge.config.profile import HOT_MARGIN
from axbridge.errors import Remedy, RigError
from axbridge.robot.twin.residuals import REMEDIES
from axbridge.robot.twin.twin import PassiveTwin
from axbridge.sim.engines.choice import with_usual_engine
from axbridge.units import VOLT_PER_COUNT, Calibration

_PERIOD = 0.02  # s: 50 Hz
_REDRAW = 0.2  # s
_COLUMNS = "servo", "id", "position{}", "speed{}", "load{}", "V", "°C", "torque limit", "errors", "loss"
_UNITS = {"position{}": " °", "speed{}": " °/s", "load{}": " %"}  # of a rig's joints; else counts
_TEXTS = {"servo", "errors"}
_LATEST = 5  # number of causes below the table
_LOSSY = 0.001  # share of lost packets above which the cell is coloured


@verb("--port /dev/ttyUSB0")
def monitor(
    *,
    port: str | None = None,
    rig: Annotated[str | None, "Read its servos."] = None,
    model: Annotated[str | None, "Simulate the rig with it, and print why servos differ."] = None,
    engine: str | None = None,
    baud: int = 1_000_000,
    duration: Annotated[float, "0: until Ctrl-C.", {"min": 0.0}] = 0.0,
) -> Result:
    """Read all servos of a line 50 times a second and show them in a table. It writes nothing to them.

    With --model it simulates the goals in the servos' registers, and prints why a servo differs from its model.

    In a pipe or with --json it prints one table after --duration (default: 1 s); reasons to a pipe at once, until
    Ctrl-C. The exit code is 3 if a servo does not answer.
    """
    check_needs(rig, model=model)
    json = QUIET.get()
    live = sys.stdout.isatty() and not json
    twin, causes = None, list[dict[str, Any]]()
    with ExitStack() as stack:
        loaded = None if rig is None else Rig.load(rig)
        mounted = {} if loaded is None else {s.name: loaded.specs[s.name].calibration for s in loaded.dynamixels}
        lines: list[_Line] = []
        for expected in buses_of(port, rig, baud):
            bus = stack.enter_context(SerialBus(expected.port, expected.baud))
            servos = [CycleServo(servo.name, servo.id, protocol=servo.protocol) for servo in expected.servos]
            if not servos:
                with progress("looking for servos"):
                    there = scan(bus)
                strange = [servo for servo in there if is_unknown(bus.protocol(servo.id), servo.model)]
                note(*(f"{unknown_model(servo.id, servo.model or 0).message}; it is not shown" for servo in strange))
                servos = [
                    CycleServo(f"id {servo.id}", servo.id, protocol=bus.protocol(servo.id))
                    for servo in there if servo not in strange
                ]  # fmt: skip
            if not servos:
                raise BusError(
                    f"{bus.port_name}: no servo answers", Remedy("doctor", port=bus.port_name, says="run {}")
                )
            lines.append(_Line(bus, servos, mounted))
        if model is not None and loaded is not None:
            with progress("building the simulation"):
                twin = stack.enter_context(closing(_twin_of(loaded, model, engine, lines)))
        seconds = duration or (math.inf if live or (twin is not None and not json) else 1.0)
        _watch(lines, twin, causes, seconds, live=live, print_causes=not (live or json))
    words: list[str] = []
    for line in () if live else lines:
        words += ["\t".join(row) for row in (_columns(mounted), *(row for row, _ in line.rows()))]
        words.append(line.caption())
    facts: dict[str, Any] = {"lines": [line.document() for line in lines]}
    code = HARDWARE if any(line.result.faults for line in lines) else DONE
    return Result(facts | ({} if model is None else {"causes": causes}), words, code)


_Mounted = Mapping[str, Calibration]  # by servo; empty without a rig


def _columns(mounted: _Mounted) -> tuple[str, ...]:
    return tuple(name.format(_UNITS.get(name) if mounted else "") for name in _COLUMNS)


class _Line:
    """The servos of a bus and their states in the latest cycle."""

    def __init__(self, bus: SerialBus, servos: list[CycleServo], mounted: _Mounted) -> None:
        self.bus, self.cycle, self.mounted = bus, Cycle(bus, servos), mounted
        self.times = CycleTimes()  # of the cycles in which a servo answered
        self.read()
        self._hot: dict[int, float] = {}  # °C, by id; warm from this temperature on
        for servo in servos:
            profile = FirmwareProfile.load(servo.protocol.usual_profile)  # one address for the whole family
            with suppress(BusError):  # the servo is missing
                limit = read_register(bus, servo.id, profile.register("temperature_limit"))
                self._hot[servo.id] = limit - HOT_MARGIN

    def read(self) -> None:
        """Read all servos."""
        self.result = self.cycle.receive()
        if self.result.states:
            self.times.add(self.result.time, self.result.spent)

    def rows(self) -> list[tuple[tuple[str, ...], frozenset[int]]]:
        """Return the cells of each servo, and the indices of those that show a fault."""
        rows = []
        for servo in self.cycle.servos:
            loss = self.bus.stats.of(servo.id).loss
            state = self.result.states.get(servo.name)
            if state is None:
                cells = (servo.name, str(servo.id), *["-"] * 6, _brief(self.result.faults[servo.name]), f"{loss:.2%}")
                rows.append((cells, frozenset(range(len(cells)))))
                continue
            moving: tuple[str, ...] = (str(state.position), str(state.speed), str(state.load))
            if joint := self.mounted.get(servo.name):
                angle, speed = joint.angle(state.position), joint.direction * joint.units.speed * state.speed
                load = 100 * joint.direction * state.load / joint.units.full_scale
                moving = _plain(math.degrees(angle), 1), _plain(math.degrees(speed), 0), _plain(load, 0)
            limit = "-" if state.torque_limit is None else str(state.torque_limit)
            flags = servo.protocol.alarms(state.error)
            cells = (
                servo.name, str(servo.id), *moving, f"{state.voltage * VOLT_PER_COUNT:.1f}", str(state.temperature),
                limit, flags.describe(), f"{loss:.2%}",
            )  # fmt: skip
            wrong = (
                state.temperature >= self._hot.get(servo.id, math.inf),
                state.torque_limit == 0,
                bool(flags),
                loss > _LOSSY,
            )
            rows.append((cells, frozenset(column for column, bad in enumerate(wrong, 6) if bad)))
        return rows

    def wire_share(self) -> float:
        """Return the wire time of the bytes over the cycle's time, 0..1; 0 when no servo answers."""
        protocols = [servo.protocol for servo in self.cycle.servos if servo.name in self.result.states]
        return min(wire_time(protocols, self.bus.baud) / max(self.result.spent, 1e-9), 1.0)

    def caption(self) -> str:
        """Return the cycle rate and the counts of lost packets as text."""
        times, stats = self.times.as_dict(), self.bus.stats
        kinds = "asked", "timeouts", "corrupt", "late"
        sent, lost, damaged, late = (sum(getattr(counts, kind) for counts in stats.servos.values()) for kind in kinds)
        rate = "no servo answers"
        if self.result.states:
            rate = f"{times['rate']:.0f} Hz, reading takes {1e3 * times['p50']:.2f} ms "
            rate += f"(p99 {1e3 * times['p99']:.2f} ms), {self.wire_share():.0%} wire"
        return (
            f"{self.bus.port_name}: {rate}\n"
            f"{sent} asked, {lost} lost, {damaged} damaged, {late} late, {stats.junk} stray bytes"
        )

    def document(self) -> dict[str, Any]:
        """Return states, faults and statistics for the JSON document."""
        return {
            "port": self.bus.port_name,
            "states": {name: state._asdict() for name, state in self.result.states.items()},
            "faults": {name: fault.message for name, fault in self.result.faults.items()},
            "cycle": self.times.as_dict(),
            "wire_share": self.wire_share(),
            "line": self.bus.stats.as_dict(),
        }


def _plain(number: float, digits: int) -> str:
    return f"{round(number, digits) + 0.0:.{digits}f}"  # + 0.0 turns -0 into 0


def _brief(fault: BusError) -> str:
    words = {BusTimeout: "no answer", CorruptPacket: "damaged answer", PortError: "port lost"}
    return next((text for kind, text in words.items() if isinstance(fault, kind)), fault.message)


def _twin_of(rig: Rig, model: str, engine: str | None, lines: list[_Line]) -> PassiveTwin:
    loaded = with_usual_engine(rig, engine).with_model(model)
    if loaded.world is None:
        raise RigError(loaded.path, "world", "there is no body to simulate", 'add [world] urdf = "…"')
    return PassiveTwin(loaded, {bus.name: line.bus for bus, line in zip(loaded.buses, lines, strict=True)})


def _watch(
    lines: list[_Line], twin: PassiveTwin | None, causes: list[dict[str, Any]], seconds: float,
    *, live: bool, print_causes: bool,
) -> None:  # fmt: skip
    """Read all lines for `seconds`, or until Ctrl-C; append the twin's causes to `causes`."""
    start = due = drawn = time.monotonic()
    with Live(transient=False, auto_refresh=False) if live else ExitStack() as screen:
        try:
            while time.monotonic() < start + seconds:
                due = max(due + _PERIOD, time.monotonic())
                time.sleep(max(due - time.monotonic(), 0))
                for line in lines:
                    line.read()
                states = {name: state for line in lines for name, state in line.result.states.items()}
                for cause, name in () if twin is None else twin.update(time.monotonic(), states):
                    causes.append({"time": time.monotonic() - start, "servo": name, "cause": cause})
                    if print_causes:
                        print(_in_words(causes[-1]), flush=True)
                if isinstance(screen, Live) and time.monotonic() - drawn > _REDRAW:
                    drawn = time.monotonic()
                    screen.update(_table(lines, causes), refresh=True)
        except KeyboardInterrupt as end:
            if not live or isinstance(end, Terminated):
                raise


def _in_words(cause: dict[str, Any]) -> str:
    return "{time:7.1f} s  {servo}: {cause} ({remedy})".format(**cause, remedy=REMEDIES[cause["cause"]])


def _table(lines: list[_Line], causes: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), caption_justify="left", header_style="bold underline")
    for name in _columns(lines[0].mounted):  # narrow columns: 18 servos fit on 80 x 24
        table.add_column(name.replace(" ", "\n"), no_wrap=True, justify="left" if name in _TEXTS else "right")
    table.caption = Text("\n".join([*(line.caption() for line in lines), *map(_in_words, causes[-_LATEST:])]))
    for row, wrong in (entry for line in lines for entry in line.rows()):
        table.add_row(*(Text(cell, "bold red" if place in wrong else "") for place, cell in enumerate(row)))
    return table
