"""`axbridge doctor`: what is wrong with the line, and the command that repairs it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from axbridge.bus.diagnose import diagnose, grouped, ranges
from axbridge.bus.handshake import Finding
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.buses import buses_of
from axbridge.cli.levels import examined
from axbridge.cli.options import BaudOption, JsonOption, PortOption, shared
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.config.toml_tables import shipped


@app.command()
def doctor(
    port: PortOption = None,
    rig: Annotated[str | None, shared("--rig", "Check that its servos answer.")] = None,
    baud: BaudOption = 1_000_000,
    packets: Annotated[int, typer.Option("--packets", min=1, help="Number of reads that measure packet loss.")] = 1000,
    udev_rule: Annotated[
        bool, typer.Option("--udev-rule", help="Print the udev rule for adapters, then exit.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Check adapter, line and servos, and print the command that repairs each fault. Nothing moves.

    The exit code is 1 if it finds a fault.
    """
    if udev_rule:
        print((shipped("udev") / "70-axbridge.rules").read_text(encoding="utf-8"), end="")
        return DONE
    loaded = None if rig is None else Rig.load(rig)
    reports = []
    for expected in buses_of(port, rig, baud):
        with expected.open() as bus, progress("opening the port", quiet=json) as show:
            reports.append(diagnose(bus, expected.servos, packets, show))
            if loaded is not None:
                examined(bus, expected, loaded, reports[-1])
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
            for line in in_words(report.facts):
                print(wrapped(line))
            tell(report.findings)
    if any(report.findings for report in reports):
        return FAILED_CHECK
    if not json:
        typer.secho("nothing to repair", fg="green")
    return DONE


def tell(findings: Iterable[Finding], indent: str = "") -> None:
    """What is wrong, and the command that repairs it."""
    for who, problem, fix in grouped(findings):
        typer.secho(wrapped(f"! {who}: {problem}", indent), fg="red", bold=True)  # a pipe gets no colour
        print(f"{indent}  {fix}" if "axbridge " in fix or "sudo " in fix else wrapped(f"  {fix}", indent), flush=True)


def wrapped(text: str, indent: str = "") -> str:
    """Words for the terminal, none of them broken at its edge; in a pipe, one line. Commands are no such words."""
    if not sys.stdout.isatty():
        return indent + text
    start = text[: len(text) - len(text.lstrip("! "))]
    return textwrap.fill(
        text.lstrip("! "), shutil.get_terminal_size().columns, initial_indent=indent + start,
        subsequent_indent=indent + " " * len(start), break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def in_words(facts: dict[str, Any]) -> list[str]:
    """What was measured on a line."""
    timer = "" if facts["latency_timer_ms"] is None else f", latency timer {facts['latency_timer_ms']} ms"
    low = ", low-latency mode" if facts["low_latency"] else ""
    echo = ", returns what is sent (stripped)" if facts["echo"] else ""
    protocols = [name for name in PROTOCOLS if name in {one["protocol"] for one in facts["servos"]}]
    ids = {name: [one["id"] for one in facts["servos"] if one["protocol"] == name] for name in protocols}
    found = [
        f"{ranges(here)} of {PROTOCOLS[name].title}" if len(ids) > 1 or name != 1 else ranges(here)
        for name, here in ids.items()
    ]
    lines = [
        f"{facts['port']}: {facts['adapter']} adapter at {facts['baud']} baud{timer}{low}{echo}",
        f"servos: {'; '.join(found) or 'none'}",
    ]
    if slow := facts.get("no_fast_sync_read"):
        lines.append(f"ids {ranges(slow)} do not know the fast sync read (their firmware is older)")
    if "rate_hz" in facts:
        lines.append(
            f"full exchange: {facts['rate_hz']:.0f} Hz of {facts['wire_limit_hz']:.0f} Hz the line allows "
            f"(p50 {facts['cycle_p50_ms']:.2f} ms, p99 {facts['cycle_p99_ms']:.2f} ms); "
            f"worst loss {max(facts['loss'].values()):.2%}"
        )
    return lines
