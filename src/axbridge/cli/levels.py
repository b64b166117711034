"""How each servo of a rig is set up, against the rig and its profile: what `doctor --rig` and `verify` say of that."""

from __future__ import annotations

import math
from collections.abc import Mapping

from axbridge.bus.commission import read_register
from axbridge.bus.diagnose import Diagnosis
from axbridge.bus.handshake import UNREADABLE, Expected, ExpectedBus, Finding, name_of
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.units import Calibration

_NEAR = 3  # counts between a servo's own angle limit and the rig's that are no matter
_SHOWN = ("firmware_version", "return_delay_time", "status_return_level", "temperature_limit", "shutdown")


def examined(bus: SerialBus, line: ExpectedBus, rig: Rig, report: Diagnosis) -> dict[str, dict[str, int]]:
    """The registers of each servo that answers, by name of both; what is wrong by them goes into the report."""
    configs = {servo.name: servo for servo in rig.servos}
    silent = {one.id for one in report.findings if one.kind in {*UNREADABLE, "model"}}
    there = {one["id"] for one in report.facts["servos"]} - silent
    read: dict[str, dict[str, int]] = {}
    for servo in line.servos:
        if servo.id in there:
            names = servo.protocol.names
            own = (names.low, names.high, names.most_torque, names.torque, names.voltage, "present_temperature")
            registers = {name: servo.profile.register(name) for name in (*_SHOWN, *own)}
            read[servo.name] = {name: read_register(bus, servo.id, one) for name, one in registers.items()}
            where = f" --port {bus.port_name}"
            report.findings.extend(judge_levels(servo, configs[servo.name], read[servo.name], where))
    return read


def judge_levels(servo: Expected, config: ServoConfig, values: Mapping[str, int], where: str = "") -> list[Finding]:
    """What keeps a servo from doing what the rig expects of it, or from protecting itself."""
    factory = {name: servo.profile.registers[name].initial for name in values}
    wanted = {**{name: value for name, value in factory.items() if isinstance(value, int)}, **config.registers}
    findings: list[Finding] = []

    def say(problem: str, kind: str, **right: int) -> None:
        commands = (f"axbridge servo write {servo.id} {name} {value}{where}" for name, value in right.items())
        findings.append(Finding(name_of(servo), problem, " && ".join(commands), False, kind, servo.id))

    names = servo.protocol.names
    most, full = wanted[names.most_torque], servo.profile.units.full_scale
    allowed, limit = values[names.most_torque], values[names.torque]
    if allowed < most:
        problem = f"gives at most {allowed / full:.0%} of its torque: {names.most_torque} is {allowed}"
        say(problem, "torque", **{names.most_torque: most, names.torque: most})
    elif 0 < limit < allowed:  # 0: it has shut itself down, which is said elsewhere
        problem = f"gives at most {limit / full:.0%} of its torque: {names.torque} is {limit}"
        say(problem, "torque", **{names.torque: most})
    if (level := values["status_return_level"]) == servo.protocol.full_level - 1:
        problem = f"acknowledges no write (status return level {level}): each is read back"
        say(problem, "status", status_return_level=servo.protocol.full_level)
    if values["temperature_limit"] > wanted["temperature_limit"]:
        problem = f"lets itself get {values['temperature_limit']} °C hot"
        say(problem, "temperature_limit", temperature_limit=wanted["temperature_limit"])
    if wanted["shutdown"] & ~values["shutdown"]:
        say("does not switch itself off when it is overloaded or hot", "protection", shutdown=wanted["shutdown"])
    low, high = config.soft_limits
    own = values[names.low], values[names.high]
    if own != (0, 0) and low > -math.inf:
        mounted = Calibration(servo.profile.units, config.zero, config.direction)
        ends = sorted(min(max(mounted.goal(angle), 0), servo.profile.units.counts) for angle in (low, high))
        if own[0] > ends[0] + _NEAR or own[1] < ends[1] - _NEAR:
            problem = f"goes from {own[0]} to {own[1]} by its own angle limits, and the rig sends it from {ends[0]} to"
            whole = {names.low: 0, names.high: servo.profile.units.counts}
            say(f"{problem} {ends[1]}", "angle_limits", **whole)
    return findings
