"""Rules for packets: pure functions of a packet and the known registers; a rule changes values, not packets.

A servo receives each packet and answers it, so that the program gets ordinary replies. The servo itself refuses a
forbidden write: the packet gets an address without a register, or the register's present value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from axbridge.bridge.known import Known, Table, Write
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.bus.protocols.protocol import Protocol
from axbridge.config.registers import Instruction
from axbridge.units import limited_bits

_NO_REGISTER = 0xF0  # no profile has a register from here on that one packet of Protocol 1.0 could reach
_UNASSIGNED = 0x7E  # an instruction code that no protocol uses


class Notice(NamedTuple):
    """A report of a rule."""

    servo: str
    rule: str
    text: str


def _limited_position(servo: Known, name: str, value: int) -> int:
    if name != "goal_position" or servo.positions is None or servo.is_endless:
        return value
    low, high = servo.positions
    if not servo.is_relative:
        return min(max(value, low), high)
    least, most = servo.step_room()
    return min(value, max(high - most, 0)) if value > 0 else max(value, min(low - least, 0))


def _limited_speed(servo: Known, name: str, value: int) -> int:
    if name == servo.protocol.names.speed and servo.is_time_based:
        return max(value, servo.least_time)
    top = servo.top_speed if servo.is_endless else servo.speed_limit
    if top is None or name not in {servo.protocol.names.speed, "goal_velocity"}:
        return value
    if name == "moving_speed" and servo.is_endless:
        return limited_bits(value, top)
    if value == 0 and name == servo.protocol.names.speed and not servo.is_endless:
        return top  # 0: no speed limit
    return min(max(value, -top), top)


def _limited_torque(servo: Known, name: str, value: int) -> int:
    top = servo.torque_limit
    if name == "goal_current":
        top = servo.top_current
    elif name == "goal_time" and servo.is_endless and top is not None:  # a duty
        return limited_bits(value, top)
    elif name != servo.protocol.names.torque:
        return value
    return value if top is None else min(max(value, -top), top)


def _keep_off(servo: Known, name: str, value: int) -> int:
    return 0 if name == "torque_enable" and servo.kept_off else value


def _keep_middle(servo: Known, name: str, value: int) -> int:
    """Keep Torque Enable when 128 is written: Feetech's servos make the present position the middle, permanently."""
    if name != "torque_enable" or servo.protocol.lock is None or value <= 1:
        return value
    return servo.value(name) or 0


RULES: dict[str, Callable[[Known, str, int], int]] = {
    "soft limits": _limited_position,
    "top speed": _limited_speed,
    "top torque": _limited_torque,
    "temperature": _keep_off,
    "service": _keep_middle,
}
"""By name, a function of servo, register name and written value that returns the permitted value."""
_RESETS = {Instruction.FACTORY_RESET: "factory reset", Instruction.BACKUP: "backup"}


def checked(
    protocol: Protocol, packet: Packet, table: Table, *, service: bool = False
) -> tuple[Packet, tuple[Notice, ...]]:
    """Return the packet for the servos, and notices of changes; the same object if nothing was changed.

    The packet is intact. `service` permits EEPROM writes and factory reset (``--allow-service``).
    """
    notices: list[Notice] = []
    if packet.code in _RESETS and not service:
        silent = protocol.refusals.unknown is None and packet.id != BROADCAST  # unknown codes are unanswered
        code = Instruction.PING if silent else _UNASSIGNED
        names = ", ".join(servo.name for servo in table.addressed(packet.id, protocol)) or f"id {packet.id}"
        notice = Notice(names, "service", f"{_RESETS[Instruction(packet.code)]} refused: --allow-service lets it pass")
        return packet._replace(code=int(code), params=b""), (notice,)
    params = bytearray(packet.params)
    for servo, write in table.writes(protocol, packet):
        if write.address < servo.profile.eeprom_end and not service:
            _refuse_service(servo, protocol, params, write, notices)
        _limit(servo, params, write, notices, service=service)
    if bytes(params) == packet.params:
        return packet, ()
    return packet._replace(params=bytes(params)), tuple(notices)


def wanted(protocol: Protocol, packet: Packet, table: Table) -> dict[str, dict[int, int]]:
    """Return the values that a packet writes to whole registers with a rule, by name and id."""
    values: dict[str, dict[int, int]] = {}
    for servo, write in table.writes(protocol, packet):
        for name, register, places in servo.parts(write.address, len(write.data)):
            if None not in places:
                data = bytes(write.data[place] for place in places if place is not None)
                values.setdefault(name, {})[servo.id] = register.decode(data)
    return values


def powered(protocol: Protocol, packet: Packet, table: Table) -> set[int]:
    """Return ids of the servos whose torque a packet may switch on, and is not known to be on."""
    ids = set()
    on, goal = protocol.torque_enable, protocol.goal_position[0]
    for servo, write in table.writes(protocol, packet):
        if servo.value("torque_enable") == 1:
            continue
        targets = servo.targets(write.address, len(write.data))
        switched_on = any(target == on and byte for target, byte in zip(targets, write.data, strict=True))
        if switched_on or None in targets or (goal in targets and servo.goal_enables_torque):
            ids.add(servo.id)
    return ids


def beyond(servo: Known) -> dict[str, int]:
    """Return the permitted values, by name, of speed and torque registers that exceed the rig's limits."""
    values = {}
    for name in dict.fromkeys((servo.protocol.names.speed, servo.protocol.names.torque, "goal_current")):
        present = servo.value(name)
        if present is None or servo.profile.register(name).address < servo.profile.eeprom_end:
            continue
        if (allowed := _limited_torque(servo, name, _limited_speed(servo, name, present))) != present:
            values[name] = allowed
    return values


def _refuse_service(servo: Known, protocol: Protocol, params: bytearray, write: Write, notices: list[Notice]) -> None:
    end = write.begin + len(write.data)
    data = bytes(params[write.begin : end])
    present = servo.data(write.address, len(data))
    if data == present:
        return
    if protocol.refusals.access:
        no_register = _NO_REGISTER if protocol.address_size == 1 else 0xFFFF - len(data)
        params[write.at : write.at + protocol.address_size] = no_register.to_bytes(protocol.address_size, "little")
    elif present is not None:
        params[write.begin : end] = present
    else:  # the present value is unknown: write to an address without a register, which the servo acknowledges
        params[write.at] = _NO_REGISTER
    names = [name for name, register in servo.profile.registers.items() if register.address == write.address]
    name = names[0] if names else f"address {write.address}"
    notices.append(Notice(servo.name, "service", f"write to EEPROM ({name}) refused: --allow-service lets it pass"))


def _limit(servo: Known, params: bytearray, write: Write, notices: list[Notice], *, service: bool) -> None:
    address = int.from_bytes(params[write.at : write.at + servo.protocol.address_size], "little")
    for name, register, places in servo.parts(address, len(write.data)):
        present = servo.data(register.address, register.size) if None in places else None  # of a partial write
        kept = present or bytes(register.size)
        data = bytes(
            byte if place is None else params[write.begin + place] for byte, place in zip(kept, places, strict=True)
        )
        value = register.decode(data)
        for rule, limited in RULES.items():
            if service and rule == "service":
                continue
            if (new := limited(servo, name, value)) != value:
                data = present or register.encode(new)
                for byte, place in zip(data, places, strict=True):
                    if place is not None:
                        params[write.begin + place] = byte
                notices.append(Notice(servo.name, rule, f"{name} {value}: limited to {new}"))
                value = new
