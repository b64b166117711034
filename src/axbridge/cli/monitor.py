"""`axbridge monitor`: all servos, live."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axbridge.cli.app import DONE, HARDWARE, app, emit_json
from axbridge.cli.options import BaudOption, JsonOption, PortOption
from axbridge.cli.progress import progress
from axbridge.errors import BusError, BusTimeout, CorruptPacket, PortError

if TYPE_CHECKING:
    from rich.table import Table

    from axbridge.bus.cycle import Cycle, CycleResult

_PERIOD = 0.02  # s: 50 Hz
_REDRAW = 0.2  # s
_COLUMNS = ("servo", "id", "position", "speed", "load", "V", "°C", "torque limit", "errors", "loss")
_TEXTS = {"servo", "errors"}


@app.command()
def monitor(
    port: PortOption = None,
    rig: Annotated[str | None, typer.Option("--rig", help="Rig whose servos are watched.")] = None,
    baud: BaudOption = 1_000_000,
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="Stop after this time; 0 = at Ctrl-C.")] = 0.0,
    json: JsonOption = False,
) -> int:
    """Show all servos of a line live, 50 times a second; writes nothing to them.

    In a pipe, or with --json, one picture after --seconds (1 s if not given). Exit code 3 when a servo is missing then.
    """
    from axbridge.bus.cycle import Cycle, CycleServo
    from axbridge.bus.scan import scan
    from axbridge.bus.serial import SerialBus
    from axbridge.cli.buses import buses_of

    with ExitStack() as stack:
        cycles = []
        for expected in buses_of(port, rig, baud):
            bus = stack.enter_context(SerialBus(expected.port, expected.baud))
            servos = [CycleServo(servo.name, servo.id) for servo in expected.servos]
            if not servos:
                with progress("looking for servos", quiet=json):
                    servos = [CycleServo(f"id {found.id}", found.id) for found in scan(bus)]
            if not servos:
                raise BusError(f"{bus.port_name}: no servo answers", f"run `axbridge doctor --port {bus.port_name}`")
            cycles.append(Cycle(bus, servos))
        live = sys.stdout.isatty() and not json
        results = _watch(cycles, seconds or (0.0 if live else 1.0), live=live)
    if json:
        emit_json({"lines": [_document(cycle, result) for cycle, result in zip(cycles, results, strict=True)]})
    elif not live:
        _print_plain(cycles, results)
    return HARDWARE if any(result.faults for result in results) else DONE


def _watch(cycles: list[Cycle], seconds: float, *, live: bool) -> list[CycleResult]:
    from rich.live import Live

    results: list[CycleResult] = []
    end = time.monotonic() + seconds if seconds else math.inf
    due = drawn = time.monotonic()
    with Live(transient=False, auto_refresh=False) if live else ExitStack() as screen:
        try:
            while not results or time.monotonic() < end:
                results = [cycle.receive() for cycle in cycles]
                if isinstance(screen, Live) and time.monotonic() - drawn > _REDRAW:
                    drawn = time.monotonic()
                    screen.update(_table(cycles, results), refresh=True)
                due = max(due + _PERIOD, time.monotonic())
                time.sleep(max(due - time.monotonic(), 0))
        except KeyboardInterrupt:
            if not live:
                raise
    return results


def _rows(cycle: Cycle, result: CycleResult) -> list[tuple[str, ...]]:
    from axbridge.errors import ErrorFlag
    from axbridge.units import bits_to_signed

    rows = []
    for servo in cycle.servos:
        loss = f"{_loss(cycle, servo.id):.2%}"
        state = result.states.get(servo.name)
        if state is None:
            rows.append((servo.name, str(servo.id), *["-"] * 6, _brief(result.faults[servo.name]), loss))
            continue
        cells = (state.position, bits_to_signed(state.speed), bits_to_signed(state.load), f"{state.voltage / 10:.1f}")
        limit = "-" if state.torque_limit is None else str(state.torque_limit)
        flags = ErrorFlag(state.error).describe()
        rows.append((servo.name, str(servo.id), *map(str, cells), str(state.temperature), limit, flags, loss))
    return rows


def _brief(fault: BusError) -> str:
    if isinstance(fault, BusTimeout):
        return "no answer"
    return (
        "damaged answer"
        if isinstance(fault, CorruptPacket)
        else "port lost"
        if isinstance(fault, PortError)
        else fault.message
    )


def _loss(cycle: Cycle, id: int) -> float:
    stats: Any = getattr(cycle.bus, "stats", None)
    return float(stats.of(id).loss) if stats else 0.0


def _caption(cycle: Cycle, result: CycleResult) -> str:
    times = cycle.times.as_dict()
    first = (
        f"{getattr(cycle.bus, 'port_name', 'bus')}: {times['rate']:.0f} Hz, reading takes {1e3 * times['p50']:.2f} ms "
        f"(p99 {1e3 * times['p99']:.2f} ms), {result.wire_share:.0%} wire"
    )
    stats: Any = getattr(cycle.bus, "stats", None)
    if stats is None:
        return first
    lines = stats.servos.values()
    asked, lost, damaged, late, again = (
        sum(getattr(line, name) for line in lines) for name in ("asked", "timeouts", "corrupt", "late", "retries")
    )
    counts = (
        f"{asked} asked, {lost} lost, {damaged} damaged, {late} late, {again} asked again, {stats.junk} stray bytes"
    )
    return f"{first}\n{counts}"


def _table(cycles: list[Cycle], results: list[CycleResult]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), caption_justify="left", header_style="bold underline")
    for name in _COLUMNS:  # as narrow as it goes: 18 servos fit on 80 x 24
        table.add_column(name.replace(" ", "\n"), no_wrap=True, justify="left" if name in _TEXTS else "right")
    table.caption = "\n".join(_caption(*pair) for pair in zip(cycles, results, strict=True))
    for cycle, result in zip(cycles, results, strict=True):
        for row in _rows(cycle, result):
            table.add_row(*row, style="red" if row[0] in result.faults else None)
    return table


def _print_plain(cycles: list[Cycle], results: list[CycleResult]) -> None:
    for cycle, result in zip(cycles, results, strict=True):
        print("\t".join(_COLUMNS))
        for row in _rows(cycle, result):
            print("\t".join(row))
        print(_caption(cycle, result))


def _document(cycle: Cycle, result: CycleResult) -> dict[str, Any]:
    stats: Any = getattr(cycle.bus, "stats", None)
    return {
        "port": getattr(cycle.bus, "port_name", None),
        "states": {name: state._asdict() for name, state in result.states.items()},
        "faults": {name: fault.message for name, fault in result.faults.items()},
        "cycle": cycle.times.as_dict(),
        "wire_share": result.wire_share,
        "line": stats.as_dict() if stats else None,
    }
