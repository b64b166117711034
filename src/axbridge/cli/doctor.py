"""`axbridge doctor`: what is wrong with the line, and the command that mends it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.options import BaudOption, JsonOption, PortOption


@app.command()
def doctor(
    port: PortOption = None,
    rig: Annotated[str | None, typer.Option("--rig", help="Rig whose servos should be there.")] = None,
    baud: BaudOption = 1_000_000,
    packets: Annotated[int, typer.Option("--packets", min=1, help="Reads for the measurement of the loss.")] = 1000,
    udev_rule: Annotated[bool, typer.Option("--udev-rule", help="Print the udev rule for adapters, and end.")] = False,
    json: JsonOption = False,
) -> int:
    """Examine adapter, line and servos; nothing moves. Exit code 1 when something is found."""
    if udev_rule:
        from axbridge.tables import shipped

        print((shipped("udev") / "70-axbridge.rules").read_text(encoding="utf-8"), end="")
        return DONE
    from axbridge.bus.diagnose import diagnose
    from axbridge.bus.handshake import Expected
    from axbridge.bus.serial import SerialBus
    from axbridge.cli.lines import lines_of
    from axbridge.cli.progress import steps

    reports = []
    for line in lines_of(port, rig, baud):
        expected = [Expected(servo.name, servo.id, servo.profile) for servo in line.servos]
        with SerialBus(line.port, line.baud) as bus, steps() as say:
            reports.append(diagnose(bus, expected, packets, say))
    if json:
        emit_json(
            {
                "lines": [
                    {**report.facts, "findings": [finding.as_dict() for finding in report.findings]}
                    for report in reports
                ]
            }
        )
    else:
        for report in reports:
            _show(report.facts)
            for finding in report.findings:
                print(f"! {finding.subject} {finding.problem}\n  {finding.fix}")
    if any(report.findings for report in reports):
        return FAILED_CHECK
    if not json:
        print("nothing to mend")
    return DONE


def _show(facts: dict[str, Any]) -> None:
    timer = "" if facts["latency_timer_ms"] is None else f", latency timer {facts['latency_timer_ms']} ms"
    low = ", low-latency mode" if facts["low_latency"] else ""
    echo = ", with echo" if facts["echo"] else ""
    print(f"{facts['port']}: {facts['adapter']} adapter at {facts['baud']} baud{timer}{low}{echo}")
    ids = ", ".join(str(servo["id"]) for servo in facts["servos"]) or "none"
    print(f"servos: {ids}")
    if "rate_hz" in facts:
        worst = max(facts["loss"].values())
        print(
            f"full exchange: {facts['rate_hz']:.0f} Hz of {facts['wire_limit_hz']:.0f} Hz the line allows "
            f"(p50 {facts['cycle_p50_ms']:.2f} ms, p99 {facts['cycle_p99_ms']:.2f} ms); worst loss {worst:.2%}"
        )
