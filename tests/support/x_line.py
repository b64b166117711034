"""Servos of both protocols on a pseudo-terminal, with plain memory for registers, and a script for their replies.

They do what a bus can notice: answer in turn, refuse EEPROM while torque is on, stay silent after one that is missing.
"""

import os
import pty
import select
import threading
import time
import tty
from random import Random

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.config.instructions import Instruction
from axbridge.config.profile import FirmwareProfile
from axbridge.virtual.control_table import ControlTable
from tests.support.patience import come_first

I2 = Instruction
BYTE = 10e-6  # s on the line
SOON, LATEST = 0.003, 0.2  # s: what a busy machine would deliver even later is lost: no bus counts on that


class XServo:
    """One servo of Protocol 2.0 (or, with its profile, an AX or Feetech's).

    Attributes:
        table: Its registers.
        fast: Whether it knows fast reads.
        deaf: Whether it hears nothing.
    """

    def __init__(self, id, profile="xl330-m288", *, fast=True):
        self.profile = FirmwareProfile.load(profile)
        self.table = ControlTable(self.profile)
        self.table["id"], self.table["return_delay_time"], self.table["baud_rate"] = id, 0, 3
        self.fast, self.deaf, self.waiting = fast, False, None

    def power(self, volts):
        """Let its gauges show this, and room temperature."""
        self.table["present_voltage" if self.profile.protocol == 1 else "present_input_voltage"] = round(10 * volts)
        self.table["present_temperature"] = 30

    @property
    def id(self):
        return self.table["id"]

    @property
    def alert(self):
        return v2.ALERT if self.table["hardware_error_status"] else 0

    def write(self, address, data):
        if self.profile.protocol == 2 and address < 64 and self.table["torque_enable"]:
            return 7
        shares = self.table.shares(address, len(data))
        values = [self.table.patched(share, data) if share.writable and share.whole else None for share in shares]
        if any(v is None or not s.limits[0] <= v <= s.limits[1] for s, v in zip(shares, values, strict=True)):
            return 4
        for share, value in zip(shares, values, strict=True):
            self.table[share.name] = value
        return 0

    def read(self, address, length):
        data = bytes(self.table.data[address : address + length])
        return data if len(data) == length else None

    def status(self, error, params=b""):
        return v2.encode_status(self.id, error | self.alert, params)


class XLine:
    """A pseudo-terminal.

    Attributes:
        servos: All of them.
        heard: Packets of the host: version, id, instruction, parameters.
        mishap: Says of each reply what becomes of it: ``ok``, ``drop``, ``corrupt``, ``again`` (1 ms later, or not
            at all), ``held`` (once more ahead of the next reply, whenever that is), or a float (s late).
    """

    def __init__(self, servos, *, seed=1, mishap=None, echo=False):
        self.servos = list(servos)
        self.heard = []
        self.mishap = mishap or (lambda reply: "ok")
        self.echo = echo
        self._random = Random(seed)
        self._later = []
        self._held = b""
        self._one, self._two = v1.Decoder(), v2.Decoder()
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        self.port = os.ttyname(self.slave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        os.close(self.slave)
        os.close(self.master)

    def __getitem__(self, id):
        return next(servo for servo in self.servos if servo.id == id)

    def _of(self, version, id=None):
        return [
            s
            for s in self.servos
            if (s.profile.protocol == 2) == (version == 2) and not s.deaf and id in {None, BROADCAST, s.id}
        ]

    def _run(self):
        come_first()
        while not self._stop.is_set():
            now = time.monotonic()
            for entry in [entry for entry in self._later if entry[0] <= now]:
                self._later.remove(entry)
                if now < entry[2]:
                    os.write(self.master, entry[1])
            wait = min([0.02, *(max(due - now, 0.0) for due, _, _ in self._later)])
            if select.select((self.master,), (), (), wait)[0]:
                data = os.read(self.master, 4096)
                time.sleep(len(data) * BYTE)
                if self.echo:
                    os.write(self.master, data)
                for packet in self._two.feed(data):
                    if packet.intact:
                        self.heard.append((2, packet.id, packet.code, packet.params))
                        self._send(self._answers_2(packet))
                for packet in self._one.feed(data):
                    if packet.intact:
                        self.heard.append((1, packet.id, packet.code, packet.params))
                        self._send(self._answers_1(packet))

    def _send(self, replies):
        for raw in replies:
            time.sleep(len(raw) * BYTE)
            fate = self.mishap(raw)
            if fate == "drop":
                continue
            data = raw
            if fate == "corrupt":
                at = self._random.randrange(len(raw))
                data = raw[:at] + bytes((raw[at] ^ self._random.randrange(1, 256),)) + raw[at + 1 :]
            if isinstance(fate, float):
                self._later.append((time.monotonic() + fate, data, time.monotonic() + LATEST))
                continue
            os.write(self.master, self._held + data)
            self._held = data if fate == "held" else b""
            if fate == "again":
                self._later.append((time.monotonic() + 0.001, data, time.monotonic() + SOON))

    def _answers_1(self, packet):
        if packet.code == Instruction.SYNC_READ:  # Feetech's
            for id_ in packet.params[2:]:
                servo = next(iter(self._of(1, id_)), None)
                if servo is None:
                    return  # those behind it wait for it
                yield v1.encode(id_, 0, servo.read(*packet.params[:2]))
            return
        for servo in self._of(1, packet.id):
            reply = None
            if packet.code == Instruction.PING:
                reply = v1.encode(servo.id, 0)
            elif packet.code == Instruction.READ and packet.id != BROADCAST:
                data = servo.read(*packet.params)
                reply = v1.encode(servo.id, 8) if data is None else v1.encode(servo.id, 0, data)
            elif packet.code == Instruction.WRITE:
                reply = v1.encode(servo.id, 8 if servo.write(packet.params[0], packet.params[1:]) else 0)
            elif packet.code == Instruction.SYNC_WRITE:
                data = v1.sync_write_blocks(packet.params).get(servo.id)
                if data is not None:
                    servo.write(packet.params[0], data)
            if reply is not None and (packet.id != BROADCAST or packet.code == Instruction.PING):
                yield reply

    def _answers_2(self, packet):
        params, code = packet.params, packet.code
        address, length = (int.from_bytes(params[at : at + 2], "little") for at in (0, 2))
        if code in {I2.SYNC_READ, I2.FAST_SYNC_READ}:
            blocks = []
            for id_ in params[4:]:
                servo = next(iter(self._of(2, id_)), None)
                data = servo and servo.read(address, length)
                if data is None or (code == I2.FAST_SYNC_READ and not servo.fast):
                    return  # those behind it wait for it
                if code == I2.SYNC_READ:
                    yield servo.status(0, data)
                blocks.append(v2.Block(id_, servo.alert, data))
            if code == I2.FAST_SYNC_READ:
                yield v2.encode_fast_status(blocks)
            return
        for servo in sorted(self._of(2, packet.id), key=lambda servo: servo.id):
            if code == I2.SYNC_WRITE:
                data = v2.sync_write_blocks(params).get(servo.id)
                if data is not None:
                    servo.write(address, data)
            elif code == I2.BULK_WRITE:
                for id_, place, data in v2.bulk_write_blocks(params):
                    if id_ == servo.id:
                        servo.write(place, data)
            else:
                id_ = servo.id
                error, answer = self._single(servo, code, params)
                if packet.id != BROADCAST or code == I2.PING:
                    yield v2.encode_status(id_, error | servo.alert, answer)

    def _single(self, servo, code, params):
        address = int.from_bytes(params[:2], "little")
        if code == I2.PING:
            return 0, servo.profile.model_number.to_bytes(2, "little") + bytes((servo.table["firmware_version"],))
        if code == I2.READ:
            data = servo.read(address, int.from_bytes(params[2:4], "little"))
            return (7, b"") if data is None else (0, data)
        if code == I2.WRITE:
            return servo.write(address, params[2:]), b""
        if code == I2.REG_WRITE:
            servo.waiting = address, params[2:]
            return 0, b""
        if code == I2.ACTION:
            waiting, servo.waiting = servo.waiting, None
            return (servo.write(*waiting) if waiting else 2), b""
        if code == I2.REBOOT:
            servo.table.power_on()
            return 0, b""
        if code == I2.CLEAR and params == bytes.fromhex("0144584c22"):
            servo.table["present_position"] %= 4096
            return 0, b""
        if code == I2.FACTORY_RESET and params[0] in {0xFF, 0x01, 0x02}:
            kept = {"id": servo.id} if params[0] != 0xFF else {}
            kept |= {"baud_rate": servo.table["baud_rate"]} if params[0] == 0x02 else {}
            servo.table.factory_reset()
            servo.table.power_on()
            for name, value in kept.items():
                servo.table[name] = value
            return 0, b""
        return 2, b""
