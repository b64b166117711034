"""Step 2: who each servo is, and how it is set up, against the rig and the profile. Nothing moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axbridge.bus.base import Bus
from axbridge.bus.commission import read_register, read_start
from axbridge.bus.diagnose import look_at_condition
from axbridge.bus.handshake import UNREADABLE, Expected, ExpectedBus, Finding, inspect, name_of
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import NAMES, TABLE_SIZE
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.units import Calibration
from axbridge.verify.outcome import Measured

_NEAR = 3  # counts between a servo's own angle limit and the rig's that are no matter
_FACTS = (
    "model_number", "firmware_version", "id", "return_delay_time", "temperature_limit", "status_return_level",
    "shutdown", "torque_enable", "present_temperature",
)  # fmt: skip
_FACTS_2 = (
    "drive_mode", "operating_mode", "homing_offset", "velocity_limit", "hardware_error_status", "position_p_gain",
    "position_i_gain", "position_d_gain",
)  # fmt: skip


def look_at_servos(rig: Rig, lines: Sequence[ExpectedBus]) -> Measured:
    """Ask every servo of the rig for its registers, and say what is not as it should be.

    Raises:
        PortError: a port cannot be opened, or is lost.
        BusError: a servo that answered does so no more.
        RigError, ProfileError: a profile cannot be loaded.
    """
    configs = {servo.name: servo for servo in rig.servos}
    facts: dict[str, Any] = {"servos": {}}
    findings: list[Finding] = []
    for line in lines:
        with line.open() as bus:
            where = f" --port {bus.port_name}"
            for servo in line.servos:
                found = inspect(bus, servo, where)
                findings += found
                if any(finding.kind in UNREADABLE for finding in found):
                    continue
                findings += look_at_condition(bus, servo)
                values = _values(bus, servo)
                facts["servos"][servo.name] = {key: values[key] for key in _facts(servo.profile) if key in values}
                findings += judge_levels(servo, configs[servo.name], values, where)
    there = list(facts["servos"].values())
    words = [f"{len(there)} of {sum(len(line.servos) for line in lines)} servos of the rig are there"]
    if there:
        volts = [servo[names.voltage] / 10 for servo in there for names in NAMES.values() if names.voltage in servo]
        warmest = max(servo["present_temperature"] for servo in there)
        firmware = sorted({servo["firmware_version"] for servo in there})
        words.append(
            f"firmware {', '.join(map(str, firmware))}; {min(volts):.1f} to {max(volts):.1f} V; up to {warmest} °C; "
            f"{sum(servo['torque_enable'] for servo in there)} motors on"
        )
    return Measured(facts, words, findings)


def judge_levels(servo: Expected, config: ServoConfig, values: Mapping[str, int], where: str = "") -> list[Finding]:
    """What keeps a servo from doing what the rig expects of it, or from protecting itself.

    Args:
        servo: Which.
        config: The rig's entry.
        values: Its registers, by name, in counts.
        where: How the commands of the fixes name the port.
    """
    wanted = {**{name: value for name in values if (value := _factory(servo.profile, name)) is not None},
              **config.registers}  # fmt: skip
    findings: list[Finding] = []

    def say(problem: str, kind: str, **mended: int) -> None:
        commands = (f"axbridge servo write {servo.id} {name} {value}{where}" for name, value in mended.items())
        findings.append(Finding(name_of(servo), problem, " && ".join(commands), False, kind, servo.id))

    names = NAMES[servo.profile.protocol]
    most, full = wanted[names.most_torque], servo.profile.units.full_scale
    allowed, limit = values[names.most_torque], values[names.torque]
    if allowed < most:
        problem = f"gives at most {allowed / full:.0%} of its torque: {names.most_torque} is {allowed}"
        say(problem, "torque", **{names.most_torque: most, names.torque: most})
    elif 0 < limit < allowed:  # 0: it has shut itself down, which is said elsewhere
        problem = f"gives at most {limit / full:.0%} of its torque: {names.torque} is {limit}"
        say(problem, "torque", **{names.torque: most})
    if values["status_return_level"] == 1:
        say("acknowledges no write (status return level 1): each is read back", "status", status_return_level=2)
    if values["temperature_limit"] > wanted["temperature_limit"]:
        problem = f"lets itself get {values['temperature_limit']} °C hot"
        say(problem, "temperature_limit", temperature_limit=wanted["temperature_limit"])
    if wanted["shutdown"] & ~values["shutdown"]:
        say("does not switch itself off when it is overloaded or hot", "protection", shutdown=wanted["shutdown"])
    low, high = config.soft_limits
    own = values[names.low], values[names.high]
    if own != (0, 0) and low > -float("inf"):
        mounted = Calibration(servo.profile.units, config.zero, config.direction)
        ends = sorted(min(max(mounted.goal(angle), 0), servo.profile.units.counts) for angle in (low, high))
        if own[0] > ends[0] + _NEAR or own[1] < ends[1] - _NEAR:
            problem = f"goes from {own[0]} to {own[1]} by its own angle limits, and the rig sends it from {ends[0]} to"
            whole = {names.low: 0, names.high: servo.profile.units.counts}
            say(f"{problem} {ends[1]}", "angle_limits", **whole)
    return findings


def _factory(profile: FirmwareProfile, name: str) -> int | None:
    initial = profile.registers[name].initial
    return initial if isinstance(initial, int) else None


def _facts(profile: FirmwareProfile) -> tuple[str, ...]:
    """What is kept of a servo's registers, by name."""
    names = NAMES[profile.protocol]
    own = (names.low, names.high, names.most_torque, names.torque, names.voltage)
    return (*_FACTS, *own, *_FACTS_2) if profile.protocol == 2 else (*_FACTS, *own)


def _values(bus: Bus, servo: Expected) -> dict[str, int]:
    """Registers of a servo by name: of Protocol 1.0 all that every servo has, of 2.0 those that are looked at."""
    registers = servo.profile.registers
    if servo.profile.protocol == 2:
        return {name: read_register(bus, servo.id, registers[name]) for name in _facts(servo.profile)}
    table = read_start(bus, servo.id, TABLE_SIZE) or b""
    return {
        name: int.from_bytes(table[register.address : register.end], "little", signed=register.signed)
        for name, register in registers.items()
        if register.end <= len(table)
    }
