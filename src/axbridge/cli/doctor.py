"""`axbridge doctor`: what is wrong with the line, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.options import BaudOption, JsonOption, PortOption, shared

if TYPE_CHECKING:
    from axbridge.bus.handshake import Finding


@app.command()
def doctor(
    port: PortOption = None,
    rig: Annotated[str | None, shared("--rig", "Its servos should be there.")] = None,
    baud: BaudOption = 1_000_000,
    packets: Annotated[int, typer.Option("--packets", min=1, help="Reads for the measurement of the loss.")] = 1000,
    udev_rule: Annotated[bool, typer.Option("--udev-rule", help="Print the udev rule for adapters, and end.")] = False,
    json: JsonOption = False,
) -> int:
    """Check adapter, line and servos, and say what mends them; nothing moves. Exit code 1 if it finds something."""
    if udev_rule:
        from axbridge.config.toml_tables import shipped

        print((shipped("udev") / "70-axbridge.rules").read_text(encoding="utf-8"), end="")
        return DONE
    from axbridge.bus.diagnose import diagnose
    from axbridge.cli.buses import buses_of
    from axbridge.cli.progress import progress

    reports = []
    for expected in buses_of(port, rig, baud):
        with expected.open() as bus, progress("opening the port", quiet=json) as show:
            reports.append(diagnose(bus, expected.servos, packets, show))
    if json:
        emit_json(
            "doctor-1",
            {
                "lines": [
                    {**report.facts, "findings": [finding.as_dict() for finding in report.findings]}
                    for report in reports
                ]
            },
        )
    else:
        for report in reports:
            _show(report.facts)
            _tell(report.findings)
    if any(report.findings for report in reports):
        return FAILED_CHECK
    if not json:
        print("nothing to mend")
    return DONE


def _tell(findings: Iterable[Finding]) -> None:
    """What is wrong, and the command that mends it."""
    from axbridge.bus.diagnose import grouped

    for who, problem, fix in grouped(findings):
        print(f"! {who}: {problem}\n  {fix}")


def _show(facts: dict[str, Any]) -> None:
    from axbridge.bus.diagnose import ranges

    timer = "" if facts["latency_timer_ms"] is None else f", latency timer {facts['latency_timer_ms']} ms"
    low = ", low-latency mode" if facts["low_latency"] else ""
    echo = ", returns what is sent (stripped)" if facts["echo"] else ""
    print(f"{facts['port']}: {facts['adapter']} adapter at {facts['baud']} baud{timer}{low}{echo}")
    second = [servo["id"] for servo in facts["servos"] if servo["protocol"] == 2]
    first = [servo["id"] for servo in facts["servos"] if servo["protocol"] == 1]
    print(f"servos: {ranges(first) or 'none'}" + (f"; of Protocol 2.0: {ranges(second)}" if second else ""))
    if slow := facts.get("no_fast_sync_read"):
        print(f"ids {ranges(slow)} do not know the fast sync read (their firmware is older): each answers by itself")
    if "rate_hz" in facts:
        worst = max(facts["loss"].values())
        print(
            f"full exchange: {facts['rate_hz']:.0f} Hz of {facts['wire_limit_hz']:.0f} Hz the line allows "
            f"(p50 {facts['cycle_p50_ms']:.2f} ms, p99 {facts['cycle_p99_ms']:.2f} ms); worst loss {worst:.2%}"
        )
