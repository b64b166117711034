"""Commands that let a test control a served world: one JSON object per line, answered by one per line.

``{"command": "inject", "spec": "dead:3"}`` is answered by ``{"ok": true, "result": null}``, and a wrong command by
``{"ok": false, "error": "…", "hint": "…"}``. `axbridge.testing.ServoBus` has the same commands as documented methods;
tests in other languages write the lines themselves.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, FiniteFloat, NonNegativeInt, ValidationError, validate_call

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.registers import Instruction
from axbridge.errors import AxBridgeError, UsageError
from axbridge.file_reading import misfit_in_words
from axbridge.servo.columns import State
from axbridge.units import FULL_SCALE
from axbridge.virtual.channel import Channel
from axbridge.virtual.line import Line, Logged
from axbridge.virtual.servo import VirtualServo
from axbridge.virtual.world import World

_LOG_LENGTH = 20_000  # packets in the log of a line
_HINT = 'write a line such as {"command": "inject", "spec": "drop=0.1"}'
_ADDRESSED = {Instruction.READ, Instruction.WRITE, Instruction.REG_WRITE}


class Control:
    """Executes commands on a served world."""

    def __init__(self, world: World, channels: Mapping[str, Channel]) -> None:
        self._world = world
        self._channels = channels
        self._timing: Literal["wire", "none"] = next((line.timing for line in world.lines.values()), "none")
        self._directions = {config.name: config.direction for config in world.rig.dynamixels}
        self._watch()

    def ready(self) -> str:
        """Return the line that reports readiness: the port of the first bus, and the ports of all."""
        ports = self._ports()
        return json.dumps({"ready": next(iter(ports.values()), None), "ports": ports})

    def run_command(self, text: str) -> str:
        """Execute one line; return the answer."""
        try:
            given = json.loads(text)
            command = given.pop("command", None) if isinstance(given, dict) else None
            if not isinstance(command, str) or command not in COMMANDS:
                raise UsageError(f"no command {command!r}", f"there are: {', '.join(COMMANDS)}")
            result = COMMANDS[command](self, **given)
            self._world.sleep_until(self._world.now())  # faults due now strike before the answer
            self._plug()
        except AxBridgeError as mistake:
            return json.dumps({"ok": False, "error": mistake.message, "hint": mistake.hint})
        except ValidationError as mistake:
            error = mistake.errors()[0]
            argument = ".".join(map(str, error["loc"]))
            what = f"{argument}: {misfit_in_words(error)}"
            return json.dumps({"ok": False, "error": what, "hint": "nothing was done"})
        except (ValueError, RecursionError) as mistake:
            return json.dumps({"ok": False, "error": f"no JSON: {mistake}", "hint": _HINT})
        return json.dumps({"ok": True, "result": result})

    # -- the commands -------------------------------------------------------------------------------------------------

    def _do_inject(self, spec: str) -> None:
        self._world.inject(spec)

    def _do_clear(self) -> None:
        self._world.inject("none")

    def _do_registers(self, id: int) -> dict[str, int]:
        servo = self._servo(id)
        data = servo.peek(0, servo.table.size, self._world.now())
        return {name: r.decode(data[r.address : r.end]) for name, r in servo.profile.registers.items()}

    def _do_write(self, id: int, name: str, value: int) -> None:
        servo = self._servo(id)
        register = servo.profile.registers.get(name)
        if register is None:
            raise UsageError(f"servo {id} has no register {name!r}", f"it has: {', '.join(servo.profile.registers)}")
        least, most = register.span
        if not least <= value <= most:
            raise UsageError(f"{name} = {value} does not fit into its bytes", f"they hold {least} to {most}")
        low, high = servo.firmware.ranges.get(name, (register.minimum, register.maximum))
        refused = servo.write(register.address, register.encode(value), self._world.now())
        if refused or not (register.writable and low <= value <= high):  # Feetech reports no error
            hint = "it does so to any program: see its range and locks"
            raise UsageError(f"servo {id} refuses {name} = {value}", hint)
        servo.eeprom_write_time = 0.0

    def _do_powered(self) -> list[int]:
        driven = [(s.id, s.table) for s in self._world.servos.values() if s.firmware.driven]
        # a wheel of an AX turns although its Torque Enable is 0
        return sorted(id_ for id_, t in driven if t["torque_enable"] or t["moving_speed"] & FULL_SCALE)

    def _do_positions(self) -> dict[str, float]:
        reading = self._world.bank.state[:, State.READING].tolist()
        return {name: self._directions[name] * reading[servo.row] for name, servo in self._world.servos.items()}

    def _do_place(self, name: str, position: FiniteFloat) -> None:
        if name not in self._directions:
            raise UsageError(f"there is no servo {name!r}", f"there are: {', '.join(self._directions)}")
        self._world.place(name, self._directions[name] * position)

    def _do_packets(self) -> list[dict[str, Any]]:
        logged = ((line, packet) for line in self._world.lines.values() for packet in line.log or ())
        return [_packet_record(line, packet) for line, packet in sorted(logged, key=lambda pair: pair[1].time)]

    def _do_reboot(self) -> None:
        self._world.power_cycle()

    def _do_unplug(self) -> None:
        self._world.inject("unplug")

    def _do_plug(self) -> dict[str, str]:
        self._world.inject("replug")
        self._world.sleep_until(self._world.now())
        self._plug()
        return self._ports()

    def _do_reset(
        self, faults: str = "", timing: Literal["wire", "none"] | None = None, seed: NonNegativeInt = 0
    ) -> dict[str, str]:
        for channel in self._channels.values():
            channel.unplug()  # the client sees the port hang up
        self._world.reset(seed=seed, timing=timing or self._timing, faults=faults)
        self._watch()
        self._plug()
        return self._ports()

    # -- their parts --------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        for line in self._world.lines.values():
            line.log = deque(maxlen=_LOG_LENGTH)

    def _plug(self) -> None:
        for name, channel in self._channels.items():
            match_plug(self._world.lines[name], channel)

    def _ports(self) -> dict[str, str]:
        return {name: channel.port for name, channel in self._channels.items()}

    def _servo(self, id: int) -> VirtualServo:
        servos = self._world.servos.values()
        servo = next((servo for servo in servos if servo.table["id"] == id), None)
        if servo is None:
            ids = ", ".join(str(servo.table["id"]) for servo in servos)
            raise UsageError(f"no servo has id {id}", f"there are: {ids}")
        return servo


COMMANDS = {  # with arguments of the right types
    name.removeprefix("_do_"): validate_call(config=ConfigDict(strict=True))(act)
    for name, act in sorted(vars(Control).items())
    if name.startswith("_do_")
}


def match_plug(line: Line, channel: Channel) -> None:
    """Plug or unplug a channel as its line is."""
    if line.plugged != bool(channel.descriptors()):
        channel.plug() if line.plugged else channel.unplug()


def _packet_record(line: Line, logged: Logged) -> dict[str, Any]:
    """Return a packet as a JSON object, for tests."""
    packet, common = logged.packet, {"time": round(logged.time, 6), "id": logged.packet.id}
    if logged.answer:
        return {**common, "kind": "status", "error": packet.code, "data": packet.params.hex(" "), "fault": logged.fault}
    known = packet.code in set(Instruction)
    kind = Instruction(packet.code).name.lower() if known else f"0x{packet.code:02x}"
    protocol = next((servo.protocol for servo in line.servos if servo.protocol.version == logged.version), PROTOCOLS[1])
    width = protocol.address_size if packet.code in _ADDRESSED else 0
    address = {"address": int.from_bytes(packet.params[:width], "little")} if width else {}
    return {**common, "kind": kind, **address, "data": packet.params[width:].hex(" "), "fault": logged.fault}
