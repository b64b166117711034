"""`axbridge monitor`: all servos, live; beside their model also what is wrong with them."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import Annotated, Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from axbridge.bus.cycle import Cycle, CycleResult, CycleServo
from axbridge.bus.scan import scan
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import wire_time
from axbridge.cli.app import DONE, HARDWARE, app, emit_json
from axbridge.cli.exit import Terminated
from axbridge.cli.off import buses_of
from axbridge.cli.options import BaudOption, EngineOption, JsonOption, PortOption, shared
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.errors import BusError, BusTimeout, CorruptPacket, PortError, RigError, UsageError
from axbridge.robot.open import with_usual_engine
from axbridge.robot.twin.residuals import REMEDIES
from axbridge.robot.twin.twin import PassiveTwin

_PERIOD = 0.02  # s: 50 Hz
_REDRAW = 0.2  # s
_COLUMNS = ("servo", "id", "position", "speed", "load", "V", "°C", "torque limit", "errors", "loss")
_TEXTS = {"servo", "errors"}
_LATEST = 5  # causes below the table
_HOT, _LOSSY = 65, 0.001  # °C, share: what is worse is coloured


@app.command()
def monitor(
    port: PortOption = None,
    rig: Annotated[str | None, shared("--rig", "Read its servos.")] = None,
    model: Annotated[str | None, shared("--model", "Simulate the rig with it, and print why servos differ.")] = None,
    engine: EngineOption = None,
    baud: BaudOption = 1_000_000,
    duration: Annotated[float, shared("--duration", "0: until Ctrl-C.", min=0.0)] = 0.0,
    json: JsonOption = False,
) -> int:
    """Read all servos of a line 50 times a second and show them in a table. It writes nothing to them.

    With --model it simulates the goals in the servos' registers and prints a line for each reason why a servo differs
    from its model.

    In a pipe or with --json it prints one table after --duration (default: 1 s). With --model it prints each reason to
    a pipe at once, until Ctrl-C. The exit code is 3 if a servo does not answer.
    """
    if model is not None and rig is None:
        raise UsageError("--model needs the robot that it is simulated on", "add --rig")
    with ExitStack() as stack:
        cycles = []
        for expected in buses_of(port, rig, baud):
            bus = stack.enter_context(SerialBus(expected.port, expected.baud))
            servos = [CycleServo(one.name, one.id, protocol=one.protocol) for one in expected.servos]
            if not servos:
                with progress("looking for servos", quiet=json):
                    servos = [CycleServo(f"id {one.id}", one.id, protocol=bus.protocol(one.id)) for one in scan(bus)]
            if not servos:
                raise BusError(f"{bus.port_name}: no servo answers", f"run `axbridge doctor --port {bus.port_name}`")
            cycles.append(Cycle(bus, servos))
        live = sys.stdout.isatty() and not json
        scales = _scales(rig)
        causes = _Causes(live=live, quiet=json)
        if model is not None and rig is not None:
            with progress("building the simulation", quiet=json):
                causes.twin = stack.enter_context(closing(_twin_of(rig, model, engine, cycles)))
        for_ever = live or (causes.twin is not None and not json)
        results = _watch(cycles, scales, causes, duration or (0.0 if for_ever else 1.0), live=live)
    if json:
        lines = [_document(cycle, result) for cycle, result in zip(cycles, results, strict=True)]
        emit_json("monitor-1", {"lines": lines} | ({} if model is None else {"causes": causes.found}))
    elif not live:
        _print_plain(cycles, results, scales)
    return HARDWARE if any(result.faults for result in results) else DONE


class _Causes:
    """What a twin has named.

    Attributes:
        twin: Of the servos; None = none.
        found: All of it: time, servo and cause.
        latest: The last few, in words.
    """

    def __init__(self, *, live: bool, quiet: bool) -> None:
        self.twin: PassiveTwin | None = None
        self.found: list[dict[str, Any]] = []
        self.latest: deque[str] = deque(maxlen=_LATEST)
        self._said = not (live or quiet)
        self._begun = time.monotonic()

    def look(self, results: list[CycleResult]) -> None:
        """Take a cycle of each line in."""
        if self.twin is None:
            return
        states = {name: state for result in results for name, state in result.states.items()}
        for cause, name in self.twin.update(time.monotonic(), states):
            passed = time.monotonic() - self._begun
            self.found.append({"time": passed, "servo": name, "cause": cause})
            self.latest.append(f"{passed:7.1f} s  {name}: {cause} ({REMEDIES[cause]})")
            if self._said:
                print(self.latest[-1], flush=True)


def _twin_of(rig: str, model: str, engine: str | None, cycles: list[Cycle]) -> PassiveTwin:
    loaded = with_usual_engine(Rig.load(rig), engine).with_model(model)
    if loaded.world is None:
        raise RigError(loaded.path, "world", "there is no body to simulate", 'add [world] urdf = "…"')
    lines = [bus.name for bus in loaded.buses]  # in the order of their cycles
    return PassiveTwin(loaded, {name: cycle.bus for name, cycle in zip(lines, cycles, strict=True)})


def _watch(cycles: list[Cycle], scales: _Scales, causes: _Causes, seconds: float, *, live: bool) -> list[CycleResult]:
    results: list[CycleResult] = []
    end = time.monotonic() + seconds if seconds else math.inf
    due = drawn = time.monotonic()
    with Live(transient=False, auto_refresh=False) if live else ExitStack() as screen:
        try:
            while not results or time.monotonic() < end:
                results = [cycle.receive() for cycle in cycles]
                causes.look(results)
                if isinstance(screen, Live) and time.monotonic() - drawn > _REDRAW:
                    drawn = time.monotonic()
                    screen.update(_table(cycles, results, scales, causes.latest), refresh=True)
                due = max(due + _PERIOD, time.monotonic())
                time.sleep(max(due - time.monotonic(), 0))
        except KeyboardInterrupt as end:
            if not live or isinstance(end, Terminated):
                raise
    return results


_Scales = dict[str, tuple[int, float, float, float]]  # by servo: zero, degrees, degrees/s and % that a count is


def _scales(rig: str | None) -> _Scales:
    """What counts are on the joints of a rig; nothing without one."""
    if rig is None:
        return {}
    found, loaded = {}, Rig.load(rig)
    for servo in loaded.dynamixels:
        units, turn = loaded.profile_of(servo).units, servo.direction * math.degrees(1)
        share = 100 * servo.direction / units.full_scale
        found[servo.name] = servo.zero, turn * units.position, turn * units.speed, share
    return found


def _columns(scales: _Scales) -> tuple[str, ...]:
    units = {"position": "position °", "speed": "speed °/s", "load": "load %"} if scales else {}
    return tuple(units.get(name, name) for name in _COLUMNS)


def _rows(cycle: Cycle, result: CycleResult, scales: _Scales) -> list[tuple[tuple[str, ...], frozenset[int]]]:
    """Cells of each servo, and which of them say that something is wrong."""
    rows = []
    for servo in cycle.servos:
        loss = _line_of(cycle).stats.of(servo.id).loss
        state = result.states.get(servo.name)
        if state is None:
            cells = (servo.name, str(servo.id), *["-"] * 6, _brief(result.faults[servo.name]), f"{loss:.2%}")
            rows.append((cells, frozenset(range(len(cells)))))
            continue
        moving: tuple[str, ...] = (str(state.position), str(state.speed), str(state.load))
        if servo.name in scales:
            zero, degrees, speed, share = scales[servo.name]
            values = degrees * (state.position - zero), speed * state.speed, share * state.load
            moving = tuple(
                f"{round(one, digits) + 0.0:.{digits}f}" for one, digits in zip(values, (1, 0, 0), strict=True)
            )
        limit = "-" if state.torque_limit is None else str(state.torque_limit)
        flags = servo.protocol.alarms(state.error)
        cells = (
            servo.name, str(servo.id), *moving, f"{state.voltage / 10:.1f}", str(state.temperature), limit,
            flags.describe(), f"{loss:.2%}",
        )  # fmt: skip
        wrong = (state.temperature >= _HOT, state.torque_limit == 0, bool(flags), loss > _LOSSY)
        rows.append((cells, frozenset(column for column, bad in enumerate(wrong, 6) if bad)))
    return rows


def _wire_share(cycle: Cycle, result: CycleResult) -> float:
    """Bare time of the bytes over the time that it took, 0..1."""
    return min(wire_time([servo.protocol for servo in cycle.servos], cycle.bus.baud) / max(result.spent, 1e-9), 1.0)


def _brief(fault: BusError) -> str:
    words = {BusTimeout: "no answer", CorruptPacket: "damaged answer", PortError: "port lost"}
    return next((said for kind, said in words.items() if isinstance(fault, kind)), fault.message)


def _line_of(cycle: Cycle) -> SerialBus:
    assert isinstance(cycle.bus, SerialBus)  # as they were made above
    return cycle.bus


def _caption(cycle: Cycle, result: CycleResult) -> str:
    times, bus = cycle.times.as_dict(), _line_of(cycle)
    asked, lost, damaged, late = (
        sum(getattr(line, name) for line in bus.stats.servos.values())
        for name in ("asked", "timeouts", "corrupt", "late")
    )
    return (
        f"{bus.port_name}: {times['rate']:.0f} Hz, reading takes {1e3 * times['p50']:.2f} ms "
        f"(p99 {1e3 * times['p99']:.2f} ms), {_wire_share(cycle, result):.0%} wire\n"
        f"{asked} asked, {lost} lost, {damaged} damaged, {late} late, {bus.stats.junk} stray bytes"
    )


def _table(cycles: list[Cycle], results: list[CycleResult], scales: _Scales, causes: Iterable[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), caption_justify="left", header_style="bold underline")
    for name in _columns(scales):  # as narrow as it goes: 18 servos fit on 80 x 24
        table.add_column(name.replace(" ", "\n"), no_wrap=True, justify="left" if name in _TEXTS else "right")
    table.caption = Text("\n".join((*(_caption(*pair) for pair in zip(cycles, results, strict=True)), *causes)))
    for cycle, result in zip(cycles, results, strict=True):
        for row, wrong in _rows(cycle, result, scales):
            table.add_row(*(Text(cell, "bold red" if place in wrong else "") for place, cell in enumerate(row)))
    return table


def _print_plain(cycles: list[Cycle], results: list[CycleResult], scales: _Scales) -> None:
    for cycle, result in zip(cycles, results, strict=True):
        print("\t".join(_columns(scales)))
        for row, _ in _rows(cycle, result, scales):
            print("\t".join(row))
        print(_caption(cycle, result))


def _document(cycle: Cycle, result: CycleResult) -> dict[str, Any]:
    return {
        "port": _line_of(cycle).port_name,
        "states": {name: state._asdict() for name, state in result.states.items()},
        "faults": {name: fault.message for name, fault in result.faults.items()},
        "cycle": cycle.times.as_dict(),
        "wire_share": _wire_share(cycle, result),
        "line": _line_of(cycle).stats.as_dict(),
    }
