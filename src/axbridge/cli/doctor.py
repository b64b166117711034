"""`axbridge doctor`: what is wrong with the line, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.options import BaudOption, JsonOption, PortOption

if TYPE_CHECKING:
    from axbridge.bus.handshake import Finding

_MANY = 4  # servos that are not named one by one


@app.command()
def doctor(
    port: PortOption = None,
    rig: Annotated[str | None, typer.Option("--rig", help="Rig whose servos should be there.")] = None,
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
    from axbridge.bus.serial import SerialBus
    from axbridge.cli.buses import buses_of
    from axbridge.cli.progress import progress

    reports = []
    for expected in buses_of(port, rig, baud):
        with SerialBus(expected.port, expected.baud) as bus, progress("opening the port", quiet=json) as show:
            reports.append(diagnose(bus, expected.servos, packets, show))
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
            _tell(report.findings)
    if any(report.findings for report in reports):
        return FAILED_CHECK
    if not json:
        print("nothing to mend")
    return DONE


def _tell(findings: Iterable[Finding]) -> None:
    """What is wrong, and the command that mends it; what several servos have in common once."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        fix = finding.fix if finding.id is None else finding.fix.replace(f" {finding.id} ", " $id ", 1)
        alike.setdefault((finding.problem, fix), []).append(finding)
    for (problem, fix), group in alike.items():
        ids = [finding.id for finding in group if finding.id is not None]
        who = ", ".join(finding.subject for finding in group)
        print(f"! {who if len(group) < _MANY else f'servos {_ranges(ids)}'}: {problem}")
        loop = f"for id in {' '.join(map(str, ids))}; do {fix}; done"
        print(f"  {loop if len(group) > 1 and '$id' in fix else group[0].fix}")


def _ranges(ids: list[int]) -> str:
    """Ids in ascending order, as in ``1-18, 20``."""
    ends: list[list[int]] = []
    for id_ in ids:
        if ends and ends[-1][1] == id_ - 1:
            ends[-1][1] = id_
        else:
            ends.append([id_, id_])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def _show(facts: dict[str, Any]) -> None:
    timer = "" if facts["latency_timer_ms"] is None else f", latency timer {facts['latency_timer_ms']} ms"
    low = ", low-latency mode" if facts["low_latency"] else ""
    echo = ", returns what is sent (stripped)" if facts["echo"] else ""
    print(f"{facts['port']}: {facts['adapter']} adapter at {facts['baud']} baud{timer}{low}{echo}")
    print(f"servos: {_ranges([servo['id'] for servo in facts['servos']]) or 'none'}")
    if "rate_hz" in facts:
        worst = max(facts["loss"].values())
        print(
            f"full exchange: {facts['rate_hz']:.0f} Hz of {facts['wire_limit_hz']:.0f} Hz the line allows "
            f"(p50 {facts['cycle_p50_ms']:.2f} ms, p99 {facts['cycle_p99_ms']:.2f} ms); worst loss {worst:.2%}"
        )
