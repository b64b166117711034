"""A pseudo-terminal with AX-12 registers behind it, and a line that loses, delays, damages and echoes on demand."""

import os
import pty
import select
import threading
import time
import tty
from collections import deque
from random import Random

from axbridge.packets import BROADCAST, Decoder, Instruction, encode
from axbridge.serve.realtime import wake_on_time


def registers(**changes):
    """The 50 bytes of an AX-12+ with position 501, 12.1 V and 43 degrees."""
    table = bytearray(50)
    values = {
        0: 12,
        2: 24,
        3: 1,
        4: 1,
        5: 0,
        9: 3,
        8: 255,
        11: 70,
        12: 60,
        13: 140,
        14: 255,
        15: 3,
        16: 2,
        17: 36,
        18: 36,
    }
    values |= {30: 0xF5, 31: 1, 34: 0xFF, 35: 3, 36: 0xF5, 37: 1, 42: 121, 43: 43, 48: 32}
    for address, value in values.items():
        table[address] = value
    for key, value in changes.items():
        table[int(key.removeprefix("r"))] = value
    return table


class PtyLine:
    """Servos by id on a pty. `faults` says for each reply what happens to it; see `mishap`."""

    def __init__(self, ids=(1,), *, echo=False, seed=1, mishap=None, link=None):
        self.link = link
        self.tables = {}
        for id_ in ids:
            self.tables[id_] = registers()
            self.tables[id_][3] = id_
        self.errors = dict.fromkeys(ids, 0)
        self.echo = echo
        self.random = Random(seed)
        self.mishap = mishap or (
            lambda _: "ok"
        )  # "ok", "drop", "corrupt", "junk", "again", "earlier", "short", seconds of delay, a refusal's error
        self._answered = deque(maxlen=5)
        self.deaf = set()
        self.frozen = set()  # addresses that take no write
        self.heard = []  # (id, instruction, params, when)
        self.writes = 0  # bytes written below address 24
        self.burn = 0.0  # s that a servo hears nothing after each of them
        self._busy = {}  # until when, by id
        self._late = deque()
        self._stop = threading.Event()
        self._open()

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

    def unplug(self):
        self._stop.set()
        self._thread.join()
        os.close(self.slave)
        os.close(self.master)

    close = unplug

    def replug(self):
        self._open()

    def power_cycle(self):
        for table in self.tables.values():
            table[24:] = registers()[24:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self._stop.is_set():
            self.unplug()

    def present(self, id):
        return int.from_bytes(self.tables[id][36:38], "little")

    def _run(self):
        wake_on_time()
        decoder = Decoder()
        while not self._stop.is_set():
            wait = 0.02
            while self._late and self._late[0][0] <= time.monotonic():
                os.write(self.master, self._late.popleft()[1])
            if self._late:
                wait = min(wait, max(self._late[0][0] - time.monotonic(), 0))
            if not select.select((self.master,), (), (), wait)[0]:
                continue
            try:
                data = os.read(self.master, 4096)
            except (OSError, ValueError):
                continue
            if self.echo:
                os.write(self.master, data)
            for packet in decoder.feed(data):
                self._hear(packet)

    def _hear(self, packet):
        self.heard.append((*packet[:3], time.monotonic()))
        for id_ in list(self.tables) if packet.id == BROADCAST else [packet.id]:
            if id_ not in self.tables or id_ in self.deaf or not packet.intact:
                continue
            if time.monotonic() < self._busy.get(id_, 0.0):
                continue
            error = self.errors[id_]
            if packet.code == Instruction.WRITE and packet.params[0] < 24 and self.tables[id_][47]:
                error |= 0x08  # locked
                reply = b"" if self.tables[id_][16] == 2 else None
            else:
                reply = self._obey(id_, packet)
            if reply is not None and packet.id != BROADCAST:
                self._answer(encode(id_, error, reply), packet)

    def _obey(self, id, packet):
        table, params = self.tables[id], packet.params
        if packet.code == Instruction.PING:
            return b""
        if packet.code == Instruction.READ:
            if table[16] == 0:
                return None
            return bytes(table[params[0] : params[0] + params[1]])
        if packet.code == Instruction.WRITE:
            self._store(id, params[0], params[1:])
            return b"" if table[16] == 2 else None
        if packet.code == Instruction.SYNC_WRITE:
            address, size = params[:2]
            for at in range(2, len(params), size + 1):
                if params[at] == id:
                    self._store(id, address, params[at + 1 : at + 1 + size])
        return None

    def _store(self, id, address, data):
        table = self.tables[id]
        before = bytes(table)
        for at, value in enumerate(data, address):
            if at not in self.frozen:
                table[at] = value
        burnt = len(range(address, min(address + len(data), 24)))
        self.writes += burnt
        if burnt:
            self._busy[id] = self._busy[table[3]] = time.monotonic() + burnt * self.burn
        if address <= 30 < address + len(data):
            table[24] = 1
        if before[3] != table[3]:
            self.tables[table[3]] = self.tables.pop(id)
            self.errors[table[3]] = self.errors.pop(id)

    def _answer(self, frame, packet):
        fate = self.mishap(packet)
        if fate == "drop":
            return
        if isinstance(fate, tuple):  # a late refusal
            fate, error = fate
            frame = encode(frame[2], error)
        if isinstance(fate, int):
            frame = encode(frame[2], fate)
        if fate == "corrupt":
            at = self.random.randrange(len(frame))
            frame = frame[:at] + bytes((frame[at] ^ self.random.randrange(1, 256),)) + frame[at + 1 :]
        elif fate == "junk":
            frame = self.random.randbytes(3) + frame
        elif fate == "insert":
            at = self.random.randrange(4, len(frame))
            frame = frame[:at] + self.random.randbytes(1) + frame[at:]
        elif fate == "short":
            frame = encode(frame[2], frame[4], frame[5:-2])
        elif fate == "again":
            self._late.append((time.monotonic() + 0.001, frame))
        elif fate == "earlier":  # what was answered before is delivered once more, ahead of this answer
            self._answered.append(frame)
            frame = b"".join(self._answered)
        elif isinstance(fate, float):
            self._late.append((time.monotonic() + fate, frame))
            return
        os.write(self.master, frame)
