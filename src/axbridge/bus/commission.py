"""Set registers with little EEPROM wear: read first, write differing values, verify."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from axbridge.bus.base import Bus
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.retries import QUESTION
from axbridge.config.profile import Area, FirmwareProfile, Register
from axbridge.config.registers import SET_MIDDLE, Instruction
from axbridge.errors import BusError, BusTimeout, CorruptPacket, Remedy, ServoFault, StatusError, UsageError

_READ_ATTEMPTS, _READ_PAUSE = 3, 0.15  # READ attempts, and s between them, before a servo counts as answering PING only
_BOOT_ATTEMPTS = 10
_NOISE = 10  # counts; a joint at rest differs less from the middle that was set
MODEL_AND_FIRMWARE = struct.Struct("<HB")  # data of a PING's status packet in Protocol 2.0
UNLOCK = "switch the supply of the servo off and on: nothing else ends the lock"


def read_register(bus: Bus, id: int, register: Register) -> int:
    """Read the value of one register."""
    return read_registers(bus, id, [register])[0]


def read_registers(bus: Bus, id: int, registers: Sequence[Register]) -> list[int]:
    """Read the values of registers that are close together by one READ; raise ServoFault if the servo refuses it."""
    first, end = min(each.address for each in registers), max(each.end for each in registers)
    reply = bus.read(id, first, end - first)
    if len(reply.data) != end - first:
        raise ServoFault(id, bus.protocol(id).error(reply.error), f"it has no register at address {first}")
    return [each.decode(reply.data[each.address - first : each.end - first]) for each in registers]


def answers_ping(bus: Bus, id: int, *, damaged: bool = False) -> bool:
    """Return whether servo `id` answers a PING; `damaged`: result for a damaged status packet."""
    try:
        bus.ping(id)
    except CorruptPacket:
        return damaged
    except BusTimeout:
        return False
    return True


def reboot(bus: Bus, id: int, profile: FirmwareProfile) -> bool:
    """Restart a servo of Protocol 2.0; return whether it answers again."""
    for _ in range(QUESTION + 1):  # a repetition does no harm: a servo that restarts receives nothing
        with suppress(BusTimeout, CorruptPacket):
            bus.instruct(id, Instruction.REBOOT)
            break
    for _ in range(_BOOT_ATTEMPTS):
        bus.clock.sleep_until(bus.clock.now() + 1e-3 * profile.timing.boot_ms)
        if answers_ping(bus, id):
            return True
    return False


def try_protocol(bus: Bus, id: int, protocol: Protocol) -> tuple[int, int] | None:
    """Ping a servo in this protocol; return model and firmware and set its protocol, or return None."""
    if id > protocol.max_id:
        return None
    known = bus.protocol(id)
    bus.set_protocol(id, protocol)
    try:
        model, firmware = MODEL_AND_FIRMWARE.unpack(bus.ping(id).data)
    except BusTimeout:
        bus.set_protocol(id, known)
        return None
    return model, firmware


def answers_reads(bus: Bus, id: int) -> bool:
    """Return whether servo `id` answers READs; at status return level 0 it does not."""
    try:
        return read_start(bus, id, 1, bus.protocol(id).id_place) is not None
    except (BusTimeout, CorruptPacket):
        return False


def read_start(bus: Bus, id: int, length: int, address: int = 0) -> bytes | None:
    """Return the first bytes of a servo's control table; None if it answers PING but no READ after pauses."""
    for look in range(_READ_ATTEMPTS):
        if look:
            bus.clock.sleep_until(bus.clock.now() + _READ_PAUSE)
        try:
            return bus.read(id, address, length).data
        except BusTimeout:
            if not answers_ping(bus, id):
                raise
    return None


def restore_status_return_level(id: int, says: str = "", **options: Any) -> Remedy:
    """Return the command that makes a servo at status return level 0 answer."""
    return Remedy("servo write", id, "status_return_level", 2, says=says, **options)


def write_register(bus: Bus, id: int, profile: FirmwareProfile, name: str, value: int) -> int:
    """Set one register if it differs, and verify it; return the EEPROM bytes sent (0: no write, or RAM).

    `SET_MIDDLE` in Torque Enable is verified by the position, because the servo keeps its torque as it is.

    Raises:
        ServoFault: the servo is locked, or did not take the value.
        BusTimeout: the write was sent, and nothing confirms it.
    """
    register = _writable(id, profile, name, value)
    if read_register(bus, id, register) == value:
        return 0
    refuse_locked(bus, id, profile, name)
    refuse_powered(bus, id, profile, name)
    before, protocol = bus.eeprom_writes, bus.protocol(id)
    flags = protocol.error(0)
    falls_silent = name == "status_return_level" and value == protocol.full_level - 2
    try:
        with unlocked(bus, id, register, value if name == "id" else id):
            reply = bus.write(id, register.address, register.encode(value))
        flags = protocol.error(reply.error if reply else 0)
    except ServoFault:
        pass  # the register is read below for a better message
    except (BusTimeout, CorruptPacket) as error:
        if not falls_silent:  # at this level the servo answers no READ
            raise _unconfirmed(id, name, value) from error
    if name == "torque_enable" and value == SET_MIDDLE:
        register, middle = profile.register("present_position"), (profile.units.counts + 1) // 2
        if abs(read_register(bus, id, register) - middle) > _NOISE:
            raise ServoFault(id, flags, "let it rest, and try again", f"has not made its position {middle}")
        return bus.eeprom_writes - before
    holder = value if name == "id" else id
    without_ack = value < protocol.full_level if name == "status_return_level" else id in bus.no_write_ack_ids
    bus.no_write_ack_ids = bus.no_write_ack_ids - {id} | ({holder} if without_ack else frozenset())
    if falls_silent:
        if read_start(bus, id, 1) is not None:
            raise ServoFault(id, flags, "try again", f"still answers reads after writing {name} {value}")
        return bus.eeprom_writes - before
    try:
        stored = read_register(bus, holder, register)
    except (BusTimeout, CorruptPacket) as error:
        raise _unconfirmed(holder, name, value) from error
    if stored != value:
        locked = _is_locked(bus, holder, profile)
        why = "is locked" if locked else "refused it"
        hint = UNLOCK if locked else Remedy("servo info", id, says="{} shows how it is set up")
        problem, alarms = f"{why}: {name} is {stored} after writing {value}", bus.hardware_error(id, flags)
        raise ServoFault(id, flags, hint, problem, alarms)
    return bus.eeprom_writes - before


@contextmanager
def unlocked(bus: Bus, id: int, register: Register, new: int) -> Iterator[None]:
    """Unlock the EEPROM of servo `id`, without which a change is lost at power-off; lock it again at its `new` id."""
    lock = bus.protocol(id).lock if register.area is Area.EEPROM else None
    if lock is not None:
        bus.write(id, lock, b"\0")
    try:
        yield
    finally:
        if lock is not None:
            with suppress(BusTimeout, CorruptPacket, ServoFault):
                bus.write(new, lock, b"\1")


def _unconfirmed(id: int, name: str, value: int) -> BusTimeout:
    says = f"{name} = {value} was sent, and may be written: look with {{}}"
    return BusTimeout(id, Remedy("servo read", id, name, says=says))


def write_blindly(bus: Bus, id: int, profile: FirmwareProfile, name: str, value: int) -> None:
    """Write one register of a servo that answers PING only; the write is not verified."""
    register = _writable(id, profile, name, value)
    bus.write(id, register.address, register.encode(value), answered=False)
    bus.ping(id)  # a reply means that the earlier packets have arrived


def refuse_locked(bus: Bus, id: int, profile: FirmwareProfile, name: str) -> None:
    """Refuse to write a register that the servo's Lock protects."""
    register = profile.register(name)
    if profile.behaviour.locks(register.address, register.size) and name != "lock" and _is_locked(bus, id, profile):
        raise ServoFault(id, 0, UNLOCK, f"is locked: {name} cannot be written")


def refuse_powered(bus: Bus, id: int, profile: FirmwareProfile, name: str) -> None:
    """Refuse to write an EEPROM register of a servo of Protocol 2.0 that has torque: it would keep the old value."""
    protocol = bus.protocol(id)
    kept = isinstance(protocol.error(0), StatusError) and profile.register(name).area is Area.EEPROM
    if kept and bus.read(id, protocol.torque_enable, 1).data == b"\1":
        hint = Remedy("servo torque", id, "off", says="its EEPROM takes nothing while its torque is on: {}")
        raise ServoFault(id, 0, hint, f"has torque: {name} cannot be written")


def _is_locked(bus: Bus, id: int, profile: FirmwareProfile) -> bool:
    lock = profile.registers.get("lock") if profile.behaviour.lock_scope != "power_off" else None
    return lock is not None and read_register(bus, id, lock) == 1


def _writable(id: int, profile: FirmwareProfile, name: str, value: int) -> Register:
    register = profile.register(name)
    if not register.writable:
        raise UsageError(f"{name} can only be read", Remedy("servo info", id, says="{} lists the registers"))
    if not register.minimum <= value <= register.maximum:
        hint = UNLOCK if (name, value) == ("lock", 0) else ""
        raise UsageError(f"{name} of an {profile.name} takes {register.minimum}..{register.maximum}, not {value}", hint)
    return register


def apply_registers(bus: Bus, id: int, profile: FirmwareProfile, values: Mapping[str, int]) -> dict[str, BusError]:
    """Set several registers with `write_register`, also after a failure; return the errors by name."""
    for name, value in values.items():
        _writable(id, profile, name, value)
    errors: dict[str, BusError] = {}
    for name, value in values.items():
        try:
            write_register(bus, id, profile, name, value)
        except (BusTimeout, CorruptPacket, ServoFault) as error:
            errors[name] = error
    return errors
