"""`axbridge doctor`: find faults of adapter, line and servos, and print the commands that repair them."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from axbridge.bus.commission import read_register
from axbridge.bus.diagnose import Diagnosis, diagnose, grouped, ranges
from axbridge.bus.handshake import UNREADABLE, Expected, ExpectedBus, Finding, name_of
from axbridge.bus.port_name import SERVE_PATIENTLY, server_behind, too_busy, unanswered_by
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, FAILED_CHECK, QUIET
from axbridge.cli.off import buses_of
from axbridge.cli.options import Result, verb
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.toml_tables import shipped
from axbridge.errors import Remedy
from axbridge.units import Calibration

PACKETS = 1000  # reads to measure the loss rate
_LIMIT_TOLERANCE = 3  # counts; smaller differences between a servo's angle limit and the rig's are ignored
_SHOWN = ("firmware_version", "return_delay_time", "status_return_level", "temperature_limit", "shutdown")


@verb("--port /dev/ttyUSB0")
def doctor(
    *,
    port: str | None = None,
    rig: Annotated[str | None, "Check that its servos answer."] = None,
    baud: int = 1_000_000,
    udev_rule: Annotated[bool, "Print the udev rule for adapters."] = False,
) -> Result:
    """Check adapter, line and servos, and print the command that repairs each fault. Nothing moves.

    The exit code is 1 if it finds a fault.
    """
    if udev_rule:
        rule = (shipped("udev") / "70-axbridge.rules").read_text(encoding="utf-8")
        return Result({"udev_rule": rule}, rule.splitlines())
    loaded = None if rig is None else Rig.load(rig)
    reports, began = [], time.monotonic()
    for expected in buses_of(port, rig, baud):
        with expected.open() as bus, progress("opening the port") as show:
            reports.append(diagnose(bus, expected.servos, PACKETS, show))
            if loaded is not None:
                examined(bus, expected, loaded, reports[-1])
            if packets := unanswered_by(server_behind(bus.port_name), began):  # explains all lost packets
                server = Finding(bus.port_name, too_busy(packets), SERVE_PATIENTLY, fatal=False, kind="busy")
                reports[-1].findings.insert(0, server)
    wrong = any(report.findings for report in reports)
    for report in () if QUIET.get() else reports:
        print(*map(wrapped, in_words(report.facts)), sep="\n")
        report_findings(report.findings)
    if not (QUIET.get() or wrong):
        typer.secho("nothing to repair", fg="green")
    lines = [{**report.facts, "findings": [vars(finding) for finding in report.findings]} for report in reports]
    return Result({"lines": lines}, code=FAILED_CHECK if wrong else DONE)


def report_findings(findings: Iterable[Finding], indent: str = "") -> None:
    """Print each fault, and the command that repairs it."""
    for subject, problem, fix in grouped(findings):
        typer.secho(wrapped(f"! {subject}: {problem}", indent), fg="red", bold=True)  # without colour in a pipe
        print(f"{indent}  {fix}" if "axbridge " in fix or "sudo " in fix else wrapped(f"  {fix}", indent), flush=True)


def wrapped(text: str, indent: str = "") -> str:
    """Wrap a text at the terminal's width; in a pipe it stays one line. Do not use it for commands."""
    if not sys.stdout.isatty():
        return indent + text
    start = text[: len(text) - len(text.lstrip("! "))]
    return textwrap.fill(
        text.lstrip("! "), shutil.get_terminal_size().columns, initial_indent=indent + start,
        subsequent_indent=indent + " " * len(start), break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def in_words(facts: dict[str, Any]) -> list[str]:
    """Return the measurements on a line as lines of text."""
    timer = "" if facts["latency_timer_ms"] is None else f", latency timer {facts['latency_timer_ms']} ms"
    low = ", low-latency mode" if facts["low_latency"] else ""
    echo = ", returns what is sent (stripped)" if facts["echo"] else ""
    ids = {name: [servo["id"] for servo in facts["servos"] if servo["protocol"] == name] for name in PROTOCOLS}
    there = {name: ranges(here) for name, here in ids.items() if here}
    parts = [
        f"{here} of {PROTOCOLS[name].title}" if len(there) > 1 or name != 1 else here for name, here in there.items()
    ]
    lines = [
        f"{facts['port']}: {facts['adapter']} adapter at {facts['baud']} baud{timer}{low}{echo}",
        f"servos: {'; '.join(parts) or 'none'}",
    ]
    if slow := facts.get("no_fast_sync_read"):
        lines.append(f"ids {ranges(slow)} have no fast sync read (their firmware is older)")
    if "rate_hz" in facts:
        lines.append(
            f"full exchange: {facts['rate_hz']:.0f} Hz of {facts['wire_limit_hz']:.0f} Hz the line allows "
            f"(p50 {facts['cycle_p50_ms']:.2f} ms, p99 {facts['cycle_p99_ms']:.2f} ms); "
            f"worst loss {max(facts['loss'].values()):.2%}"
        )
    return lines


def examined(bus: SerialBus, line: ExpectedBus, rig: Rig, report: Diagnosis) -> dict[str, dict[str, int]]:
    """Return the registers of each servo that answers, by servo and register; add their faults to the report."""
    configs = {servo.name: servo for servo in rig.servos}
    unreadable = {finding.id for finding in report.findings if finding.kind in {*UNREADABLE, "model"}}
    there = {servo["id"] for servo in report.facts["servos"]} - unreadable
    read: dict[str, dict[str, int]] = {}
    for servo in line.servos:
        if servo.id in there:
            names = servo.protocol.names
            own = (names.low, names.high, names.most_torque, names.torque, names.voltage, "present_temperature")
            registers = {name: servo.profile.register(name) for name in (*_SHOWN, *own)}
            read[servo.name] = {name: read_register(bus, servo.id, register) for name, register in registers.items()}
            report.findings.extend(judge_levels(servo, configs[servo.name], read[servo.name], bus.port_name))
    return read


def judge_levels(servo: Expected, config: ServoConfig, values: Mapping[str, int], port: str = "") -> list[Finding]:
    """Return the register values that prevent what the rig expects, or that weaken the servo's own protection."""
    factory = {name: servo.profile.registers[name].initial for name in values}
    wanted = {**{name: value for name, value in factory.items() if isinstance(value, int)}, **config.registers}
    findings: list[Finding] = []

    def say(problem: str, kind: str, **right: int) -> None:
        commands = (Remedy("servo write", servo.id, name, value, port=port) for name, value in right.items())
        findings.append(Finding(name_of(servo), problem, " && ".join(commands), False, kind, servo.id))

    names = servo.protocol.names
    most, full = wanted[names.most_torque], servo.profile.units.full_scale
    allowed, limit = values[names.most_torque], values[names.torque]
    if allowed < most:
        problem = f"gives at most {allowed / full:.0%} of its torque: {names.most_torque} is {allowed}"
        say(problem, "torque", **{names.most_torque: most, names.torque: most})
    elif 0 < limit < allowed:  # 0: the servo has shut down; another finding reports that
        problem = f"gives at most {limit / full:.0%} of its torque: {names.torque} is {limit}"
        say(problem, "torque", **{names.torque: most})
    if (level := values["status_return_level"]) == servo.protocol.full_level - 1:
        problem = f"acknowledges no write (status return level {level}): each is read back"
        say(problem, "status", status_return_level=servo.protocol.full_level)
    if values["temperature_limit"] > wanted["temperature_limit"]:
        problem = f"allows itself a temperature of {values['temperature_limit']} °C"
        say(problem, "temperature_limit", temperature_limit=wanted["temperature_limit"])
    if wanted["shutdown"] & ~values["shutdown"]:
        say("does not switch itself off when it is overloaded or hot", "protection", shutdown=wanted["shutdown"])
    low, high = config.soft_limits
    own = values[names.low], values[names.high]
    if own[0] < own[1] and own != (factory[names.low], factory[names.high]):
        mounted = Calibration(servo.profile.units, config.zero, config.direction)
        reach = mounted.range
        ends = sorted(mounted.goal(min(max(angle, reach[0]), reach[1])) for angle in (low, high))
        if own[0] > ends[0] + _LIMIT_TOLERANCE or own[1] < ends[1] - _LIMIT_TOLERANCE:
            problem = f"goes from {own[0]} to {own[1]} by its own angle limits, and the rig sends it from {ends[0]} to"
            whole = {names.low: 0, names.high: servo.profile.units.counts}
            say(f"{problem} {ends[1]}", "angle_limits", **whole)
    return findings
