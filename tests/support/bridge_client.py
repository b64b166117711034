"""A foreign program that drives two joints: ``PORT FAMILY ACT``, or a Bioloid: then a file of its goals follows. It uses the makers' SDKs alone, and checks no limits.

It prints ``running`` when the motors have their first goals, and goes on until it is ended, if the
act does not end. After an act that sends no more it reads on.
"""

import json
import math
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

import dynamixel_sdk
import scservo_sdk

PAN, TILT = 1, 2
PERIOD = 0.02  # s
FAMILIES = {  # SDK, protocol; addresses and sizes of torque, goal, position and speed; middle, counts per rad, EEPROM
    "ax": (dynamixel_sdk, 1.0, (24, 1), (30, 2), (36, 2), (32, 2), 512, 1023 / math.radians(300), (5, 6, 8, 14, 18)),
    "x": (dynamixel_sdk, 2.0, (64, 1), (116, 4), (132, 4), (112, 4), 2048, 2048 / math.pi, (9, 11, 20, 36, 63)),
    "sts": (scservo_sdk, 0, (40, 1), (42, 2), (56, 2), (46, 2), 2048, 2048 / math.pi, (7, 9, 13, 16, 31)),
}
ID = {"ax": (3, 4), "x": (7, 8), "sts": (5, 6)}  # addresses of id and baud rate


class Client:
    """Both servos, by the maker's SDK."""

    def __init__(self, port, family):
        sdk, version, self.torque, self.goal, self.position, self.speed, self.middle, self.scale, self.eeprom = (
            FAMILIES[family]
        )
        self.family = family
        self.line, self.servos = sdk.PortHandler(port), sdk.PacketHandler(version)
        self.line.openPort()
        self.line.setBaudRate(1_000_000)
        self.group = sdk.GroupSyncWrite

    def write(self, id_, register, value):
        address, size = register
        return getattr(self.servos, f"write{size}ByteTxRx")(self.line, id_, address, value)

    def read(self, id_, register):
        address, size = register
        with suppress(IndexError):  # Feetech's SDK, where no answer comes
            getattr(self.servos, f"read{size}ByteTxRx")(self.line, id_, address)

    def counts(self, angle):
        return round(self.middle + angle * self.scale)

    def data(self, value, size=None):
        return list(value.to_bytes(size or self.goal[1], "little"))

    def on(self):
        for id_ in (PAN, TILT):
            self.write(id_, self.torque, 1)

    def goals(self, pan, tilt):
        group = self.group(self.line, self.servos, *self.goal)
        for id_, angle in ((PAN, pan), (TILT, tilt)):
            group.addParam(
                id_, bytes(self.data(self.counts(angle))) if self.family != "sts" else self.data(self.counts(angle))
            )
        group.txPacket()

    def follow(self, way, seconds=math.inf, rest=lambda: PERIOD):
        """Send goals `way(t)` at 50 Hz, and read both positions."""
        start, said = time.monotonic(), False
        while (passed := time.monotonic() - start) < seconds:
            self.goals(*way(passed))
            for id_ in (PAN, TILT):
                self.read(id_, self.position)
            if not said and passed > 0.2:
                said = True
                print("running", flush=True)
            time.sleep(rest())


def sway(passed):
    return 0.2 * math.sin(2 * passed), 0.2 * math.sin(3 * passed)


def swaying(client):
    client.on()
    client.follow(sway)


def stays_a_second(client):
    client.on()
    client.follow(sway, 0.6)


def fails(client):
    stays_a_second(client)
    raise RuntimeError("on purpose")


def jitters(client):
    client.on()
    client.follow(sway, rest=lambda: random.uniform(0.0, 2 * PERIOD))


def waits(client):
    """Go on reading, as a program that waits for its user."""
    print("running", flush=True)
    while True:
        client.read(PAN, client.position)
        time.sleep(PERIOD)


def once(pan, tilt):
    def act(client):
        client.on()
        client.goals(pan, tilt)

    return act


def degrees_as_counts(client):
    client.on()
    client.follow(lambda passed: ((45 - client.middle) / client.scale, 0.1))


def swapped(client):
    client.on()
    client.follow(lambda passed: (0.3 * math.sin(passed), 1.9 * math.sin(min(passed, 1.5))))


def pauses(client):
    client.on()
    client.goals(0.0, 0.0)
    time.sleep(5.5)
    client.goals(1.5, 0.0)


def registers(client):
    client.on()
    goal = client.data(client.counts(2.4))
    client.servos.regWriteTxRx(client.line, PAN, client.goal[0], len(goal), goal)
    client.servos.action(client.line, PAN)


def bulk(client):
    client.on()
    group = dynamixel_sdk.GroupBulkWrite(client.line, client.servos)
    for id_ in (PAN, TILT):
        group.addParam(id_, *client.goal, bytes(client.data(client.counts(2.4))))
    group.txPacket()


def indirect(client):
    for number in range(4):
        client.write(PAN, (168 + 2 * number, 2), client.goal[0] + number)
    client.on()
    client.write(PAN, (208, 4), client.counts(2.4))


def template(client):
    for address in client.eeprom:
        client.write(PAN, (address, 1), 1)


def resets(client):
    for packet in ([0xFF, 0xFF, 0xFD, 0, PAN, 0, 0, 6, 0xFF, 0, 0], [0xFF, 0xFF, PAN, 2, 6, 0]):
        if (len(packet) > 6) == (client.family == "x"):
            client.servos.txRxPacket(client.line, packet)


def changes_id(client):
    client.write(PAN, (ID[client.family][0], 1), 9)


def changes_rate(client):
    client.write(PAN, (ID[client.family][1], 1), 1)


def wheel(client):
    client.on()
    client.write(PAN, client.speed, 200)


def walks(client):
    """Go to the first of some rows of goals within 2 s, then through all, again and again, and read every servo."""
    walk = json.loads(Path(sys.argv[4]).read_text())
    ids, rows = walk["ids"], walk["rows"]
    here = [client.servos.read2ByteTxRx(client.line, id_, client.position[0])[0] for id_ in ids]
    group = client.group(client.line, client.servos, *client.goal)
    for id_ in ids:
        client.write(id_, client.torque, 1)
    number = -100
    while True:
        share = min((number + 100) / 100, 1.0)
        row = rows[max(number, 0) % len(rows)]
        for id_, goal, start in zip(ids, row, here, strict=True):
            group.addParam(id_, bytes(client.data(round(start + share * (goal - start)))))
        group.txPacket()
        group.clearParam()
        for id_ in ids:
            client.read(id_, client.position)
        number += 1
        if number == 0:
            print("running", flush=True)
        time.sleep(PERIOD / 2)


ACTS = {
    "sways": swaying, "stays a second": stays_a_second, "jitters": jitters, "fails": fails, "goes far": once(1.5, 0.0),
    "pushes": once(0.0, 1.0), "degrees": degrees_as_counts, "swaps": swapped, "switches on": Client.on,
    "pauses": pauses, "registers": registers, "bulk": bulk, "indirect": indirect, "template": template,
    "resets": resets, "id": changes_id, "rate": changes_rate, "wheel": wheel, "reads": waits, "walks": walks,
}  # fmt: skip


if __name__ == "__main__":
    act, own = sys.argv[3], Client(sys.argv[1], sys.argv[2])
    ACTS[act](own)
    if act != "stays a second":
        waits(own)
