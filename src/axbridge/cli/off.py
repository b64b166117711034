"""`axbridge off`: switch off every motor on the line."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from axbridge.bus.handshake import Expected, ExpectedBus, is_unknown, name_of
from axbridge.bus.port_name import bridge_at, find_port
from axbridge.bus.protocols.known import PROTOCOLS, SECOND
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.retries import CONFIRMED
from axbridge.bus.scan import FoundServo, has_feetech, ping_all, scan
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, HARDWARE
from axbridge.cli.options import Result, verb
from axbridge.errors import BusError, BusTimeout, CorruptPacket, PortError, UsageError

_PATIENCE = 0.02  # s; a busy computer may deliver a status packet so late
_FREE = 5.0  # s; the guard of an ended program closes the port within this time


@verb("--port /dev/ttyUSB0")
def off(
    *,
    port: str | None = None,
    rig: Annotated[str | None, "Use its lines; every servo of it must confirm."] = None,
    baud: int = 1_000_000,
) -> Result:
    """Switch off every motor on the line now: by broadcast in each protocol, then servo by servo.

    It prints which servos confirm. The exit code is 3 if one does not confirm, or none answers. Then cut the supply. An
    `axbridge bridge` on the line is ended first, because its program could switch the motors on again.
    """
    lines: list[dict[str, Any]] = []
    words, broken = [], []
    for line in buses_of(port, rig, baud):
        try:
            with patiently_opened(line) if _has_ended_bridge(line.port) else line.open() as bus:
                answers, name = _switched_off(bus, line), bus.port_name
        except BusError as error:  # the other lines must still be switched off
            broken.append(error)
            continue
        lines.append({"port": name, **answers})
        words.append(f"{name}: off and confirmed: {', '.join(answers['off']) or 'none'}")
        words += [f"{name}: not confirmed: {', '.join(answers['unconfirmed'])}"] if answers["unconfirmed"] else []
    confirmed = not broken and all(line["off"] and not line["unconfirmed"] for line in lines)
    words += [] if confirmed else ["a motor may still have power: cut the servo supply"]
    if broken and not lines:
        raise broken[0]
    return Result({"lines": lines}, words, DONE if confirmed else HARDWARE, broken[0] if broken else None)


def _has_ended_bridge(port: str) -> bool:
    """Kill the bridge on a port, if there is one, and remove its link; its guard process switches the motors off."""
    bridge = bridge_at(find_port() if port == "auto" else port)
    if bridge is not None:
        try:
            os.kill(bridge.process, signal.SIGKILL)
        except PermissionError as failure:
            problem = f"the bridge of another user (process {bridge.process}) has the port"
            raise PortError(port, problem, f"sudo kill -9 {bridge.process}, then again") from failure
        with suppress(OSError):  # its terminal's number may be another program's next
            if bridge.link and Path(bridge.link).is_symlink():
                Path(bridge.link).unlink()
    return bridge is not None


def _switched_off(bus: SerialBus, line: ExpectedBus) -> dict[str, list[str]]:
    broadcast_off(bus, line.servos)
    from axbridge.cli.progress import progress  # imported after the broadcast, because it is slow

    answers: dict[str, list[str]] = {"off": [], "unconfirmed": []}
    with progress("looking for servos") as show:
        servos = scan(bus)
        answering, unknown = {servo.id: f"servo {servo.id}" for servo in servos}, _unknown(servos, line.servos)
        bus.latency = max(bus.latency, _PATIENCE)
        for id_, name in sorted({**answering, **{servo.id: name_of(servo) for servo in line.servos}}.items()):
            if id_ in unknown:
                answers["unconfirmed"].append(f"{name} is model {unknown[id_]}, unknown here, and got no write")
                continue
            show(f"asking {name}")
            doubt = _doubt(bus, id_, CONFIRMED if id_ in answering else 1)
            answers["off" if doubt is None else "unconfirmed"].append(name + (doubt or ""))
    return answers


def _unknown(servos: Iterable[FoundServo], expected: Sequence[Expected]) -> dict[int, int | None]:
    """Return the model number by id for servos without a known profile; a rig's own profiles count as known."""
    own = {s.id: s.profile for s in expected}
    return {s.id: s.model for s in servos if is_unknown(PROTOCOLS[s.protocol], s.model, own.get(s.id))}


def broadcast_off(bus: SerialBus, servos: Sequence[Expected] = ()) -> None:
    """Switch off every motor, also of servos that do not answer; each broadcast is sent `CONFIRMED` times.

    A broadcast has no status packet. If a servo's model is unknown, the Protocol 2.0 write names known servos and those
    of the rig (`servos`) instead.
    """
    for protocol in [kind for kind in PROTOCOLS.values() if kind is not FIRST and kind.common_registers] * CONFIRMED:
        bus.limp_all(protocol)
    answering = ping_all(bus)
    unknown = _unknown(answering, servos)
    listed = {servo.id for servo in answering} | {servo.id for servo in servos if servo.protocol is SECOND}
    listed -= unknown.keys()
    for _ in range(CONFIRMED):
        if not unknown:
            bus.limp_all(SECOND)
        elif listed:
            bus.limp_all(SECOND, listed)
    known = set(bus.protocols.values())
    if not (known - {FIRST, SECOND} or (not known and has_feetech(bus))):  # address 24 of Feetech servos is EEPROM
        for _ in range(CONFIRMED):
            bus.limp_all(FIRST)


def _doubt(bus: SerialBus, id: int, attempts: int) -> str | None:
    """Switch a servo off; return None if it confirms that, else a reason, or an empty string."""
    address = bus.protocol(id).torque_enable
    try:
        for _ in range(CONFIRMED):
            bus.write(id, address, b"\0", answered=False)
        return None if read_patiently(bus, id, address, 1, attempts) == b"\0" else ""
    except PortError:
        raise
    except BusError as failure:
        return " (damaged answers: two servos with this id?)" if isinstance(failure, CorruptPacket) else ""


def powered(lines: Sequence[ExpectedBus]) -> list[str]:
    """Return the names of servos that have torque or do not answer; then switch all off."""
    off = set()
    for line in lines:
        with suppress(BusError), patiently_opened(line) as bus:  # the other lines must still be switched off
            for servo in line.servos:
                with suppress(BusError):
                    if read_patiently(bus, servo.id, servo.protocol.torque_enable, 1) == b"\0":
                        off.add(servo.name)
            broadcast_off(bus, line.servos)
    return [servo.name for line in lines for servo in line.servos if servo.name not in off]


def read_patiently(bus: SerialBus, id: int, address: int, length: int, attempts: int = CONFIRMED) -> bytes:
    """Read bytes of a servo, with several attempts."""
    for _ in range(attempts - 1):
        with suppress(BusTimeout, CorruptPacket):
            return bus.read(id, address, length).data
    return bus.read(id, address, length).data


def patiently_opened(line: ExpectedBus) -> SerialBus:
    """Open the line; wait until the guard of an ended program has closed it."""
    until = time.monotonic() + _FREE
    while True:
        try:
            bus = line.open()
        except PortError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            bus.latency = max(bus.latency, _PATIENCE)
            return bus


def buses_of(port: str | None, rig: str | None, baud: int) -> list[ExpectedBus]:
    """Return the buses that a verb's options select."""
    if rig is None:
        return [ExpectedBus(port or "auto", baud)]
    from axbridge.config.rig import Rig  # a slow import, needed only with a rig
    from axbridge.robot.backend import ports_of

    loaded = Rig.load(rig)
    if not loaded.dynamixels:
        raise UsageError(f"rig {loaded.name} has no Dynamixels, so there is no line", "name a port with --port")
    if port and len(loaded.buses) > 1:
        raise UsageError(f"rig {loaded.name} has {len(loaded.buses)} buses, but --port names one", "leave --port out")
    servos = [
        (servo.bus, Expected(servo.name, servo.id, loaded.specs[servo.name].profile, servo.registers))
        for servo in loaded.dynamixels if servo.id is not None
    ]  # fmt: skip
    return [
        ExpectedBus(device, bus.baud, tuple(servo for line, servo in servos if line == bus.name))
        for bus, device in zip(loaded.buses, ports_of(loaded, port), strict=True)
    ]
