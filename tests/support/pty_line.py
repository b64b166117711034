"""Servos of `axbridge serve` in a thread of the test, which reads their state and decides how each reply is delivered."""

import os
import pty
import select
import threading
import time
import tty
from collections import deque
from collections.abc import MutableSequence
from random import Random

from axbridge.bus.protocols.v1 import encode
from axbridge.servo.columns import State
from axbridge.virtual.channel import baud
from axbridge.virtual.framing import Framing
from axbridge.virtual.mishaps import Mishaps
from axbridge.virtual.wake_latency import wake_on_time
from axbridge.virtual.world import World
from tests.support.virtual_rig import FakeBank, make_rig
from tests.support.waiting import raise_priority

POSITION, TEMPERATURE = 36, 43
READ, VOLTS, DEGREES = 501, 12.1, 43.0  # initial Present Position, counts; V; degC


class StillBank(FakeBank):
    """Shafts that stay where a test puts them."""

    def __init__(self, count):
        super().__init__(count)
        self.state[:, [State.VOLTAGE, State.TEMPERATURE]] = VOLTS, DEGREES

    def advance(self, until):
        self.time = until

    def sampled(self, rows, times):
        return self.state[rows]


class Registers(MutableSequence):
    """The control table of one AX-12, read and written without packets."""

    def __init__(self, servo, state):
        self._servo, self._state = servo, state

    def __getitem__(self, key):
        self._servo.firmware.refresh(0.0)
        return self._servo.table.data[key]

    def __setitem__(self, key, value):
        data, row = self._servo.table.data, self._servo.row
        self._servo.firmware.refresh(0.0)
        data[key] = value
        turned = int.from_bytes(data[POSITION : POSITION + 2], "little") - self._servo.zero
        self._state[row, [State.READING, State.ANGLE]] = turned * self._servo.profile.units.position
        self._state[row, State.VOLTAGE] = data[TEMPERATURE - 1] / 10
        self._state[row, State.TEMPERATURE] = data[TEMPERATURE]
        self._servo.configure()

    def __len__(self):
        return len(self._servo.table.data)

    def __delitem__(self, key):
        raise TypeError

    insert = __delitem__


class Script(Mishaps):
    """Faults of the line that a test chooses, instead of random ones."""

    def __init__(self, owner, seed):
        super().__init__(seed)
        self.shares = {"scripted": 1.0}  # so that `damage` and `deliver` get every packet
        self._owner, self._random = owner, Random(seed)
        self._framing = Framing((1, 2))
        self._latest = None  # packet of the host
        self._answered, self._held = deque(maxlen=5), b""

    def damage(self, data):
        """Record the packets of the host."""
        for received in self._framing.feed(data):
            self._latest = received.packet
            self._owner.received.append((*received.packet[:3], time.monotonic()))
        return data

    def deliver(self, due, data):
        """Return a reply as the host gets it: times and bytes."""
        owner, dice = self._owner, self._random
        if error := owner.errors.get(data[2], 0):
            data = encode(data[2], data[4] | error, data[5:-1])
        fate = owner.mishap(self._latest)
        if fate == "drop":
            return []
        if callable(fate):
            return fate(due, data)
        if isinstance(fate, tuple):  # a late refusal
            fate, error = fate
            data = encode(data[2], error)
        if isinstance(fate, float):
            return [(due + fate, data)]
        if isinstance(fate, int):
            data = encode(data[2], fate)
        elif fate == "corrupt":
            at = dice.randrange(len(data))
            data = data[:at] + bytes((data[at] ^ dice.randrange(1, 256),)) + data[at + 1 :]
        elif fate == "junk":
            data = dice.randbytes(3) + data
        elif fate == "insert":
            at = dice.randrange(4, len(data))
            data = data[:at] + dice.randbytes(1) + data[at:]
        elif fate == "short":
            data = encode(data[2], data[4], data[5:-2])
        elif fate == "earlier":
            self._answered.append(data)
            data = b"".join(self._answered)
        data, self._held = self._held + data, data if fate == "held" else b""
        return [(due, data), (due + 0.001, data)] if fate == "again" else [(due, data)]


class PtyLine:
    """Servos by id: AX-12s, or the profiles to which `ids` maps each id.

    `mishap` gets each packet of the host and returns the fault of its reply: ``ok``, ``drop``, ``corrupt``, ``junk``,
    ``insert``, ``again``, ``held`` (delivered once more before the next reply), ``earlier`` (the previous replies are
    delivered once more before it), ``short``, a float (delay, s), an integer (refusal with this error), or both; or a
    function of time and reply that returns the deliveries.
    """

    def __init__(self, ids=(1,), *, echo=False, seed=1, mishap=None, link=None):
        self.link = link
        self.errors = {}  # additional error bits of replies, by id
        self.mishap = mishap or (lambda _: "ok")
        self.deaf, self.frozen = set(), set()  # ids that receive nothing, addresses that cannot be written
        self.received = []  # packets of the host: id, instruction, parameters, time
        self.writes, self.burn = 0, 0.0  # bytes written to EEPROMs, and the write time of each, s
        bank = StillBank(len(ids))
        profiles = ids if isinstance(ids, dict) else dict.fromkeys(ids, "ax-12a")
        self._world = World(make_rig(ids, profiles, return_delay_time=0), bank=bank)
        self._line = self._world.lines["main"]
        self._line.mishaps = self._script = Script(self, seed)
        self._line._receives = self._receives
        self._received_by, self._bank = type(self._line)._receives, bank
        for servo in self._line.servos:
            self._watch(servo)
            if servo.profile.units_name == "ax":
                table = self.tables[servo.id]
                table[POSITION : POSITION + 2] = table[30:32] = READ.to_bytes(2, "little")
            else:
                bank.state[servo.row, State.VOLTAGE] = servo.profile.electrics.nominal_voltage
        self.echo = echo
        self._world.sleep_until(0.05)  # loads the kernels before a client waits
        self._origin = time.monotonic() - self._world.now()
        self._stop = threading.Event()
        self._open()

    def __getitem__(self, id):
        return next(servo for servo in self._line.servos if servo.id == id)

    def set(self, id, /, **registers):
        """Set registers of a servo without packets: counts with their signs, also measured ones."""
        servo, now = self[id], self._world.now()
        units, state = servo.profile.units, self._bank.state[servo.row]
        for name, value in registers.items():
            if name == "present_position":
                state[[State.READING, State.ANGLE]] = (value - servo.zero) * units.position
            elif name in {"present_speed", "present_velocity"}:
                state[State.SPEED] = value * units.speed
            else:
                servo.table[name] = value
        servo.configure()
        servo.push(now)

    @property
    def tables(self):
        """The registers of each AX-12, by id."""
        return {servo.id: Registers(servo, self._bank.state) for servo in self._line.servos}

    @property
    def powered(self):
        """Ids of the AX-12s with torque."""
        return [id_ for id_, table in self.tables.items() if table[24]]

    @property
    def echo(self):
        return self._script.echo

    @echo.setter
    def echo(self, on):
        self._script.echo = on

    def unplug(self):
        self._stop.set()
        self._thread.join()
        self._line.unplug()
        os.close(self.slave)
        os.close(self.master)

    close = unplug

    def replug(self):
        self._line.plug()
        self._open()

    def power_cycle(self):
        self._world.power_cycle()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self._stop.is_set():
            self.unplug()

    def _receives(self, servo, start, size):
        return servo.id not in self.deaf and self._received_by(self._line, servo, start, size)

    def _watch(self, servo):
        """Refuse writes to `frozen` addresses, and count the bytes written to the EEPROM."""
        write = servo.write

        def written(address, data, now, *, own=True):
            if self.frozen & set(range(address, address + len(data))):
                return 0
            error = write(address, data, now, own=own)
            count = 0 if error else len(range(address, min(address + len(data), servo.profile.eeprom_end)))
            self.writes += count
            servo.eeprom_write_time = count * self.burn
            return error

        servo.write = written

    def _open(self):
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        os.set_blocking(self.master, False)
        self.port = os.ttyname(self.slave)
        if self.link is not None:
            self.link.unlink(missing_ok=True)
            self.link.symlink_to(self.port)
            self.port = str(self.link)
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        raise_priority()
        wake_on_time()
        world, line = self._world, self._line
        while not self._stop.is_set():
            now = time.monotonic() - self._origin
            world.sleep_until(now)
            for delivery in line.collect(now):
                os.write(self.master, delivery.data)
            wait = min(0.02, max(line.next_due - now, 0.0))
            if select.select((self.master,), (), (), wait)[0]:
                try:
                    data = os.read(self.master, 4096)
                except OSError:
                    continue
                line.baud = baud(self.slave) or line.baud
                line.send(data, time.monotonic() - self._origin)
