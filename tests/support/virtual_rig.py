"""Worlds for tests: servos on a line with fake motors that have the behaviour that firmware needs, without PyBullet."""

from collections import deque

import numpy as np

from axbridge.bus.protocols import v1
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.registers import Instruction
from axbridge.config.rig import Rig
from axbridge.errors import ErrorFlag
from axbridge.servo.columns import Command, Mode, State
from axbridge.sim.bank import GOAL
from axbridge.virtual.world import World

FULL_SPEED = 6.2  # rad/s


class FakeBank:
    """n shafts that go to their goals in a first-order way, without load, or whose motors `stall`; on one supply or each on its own."""

    def __init__(self, n=1, voltage=11.1):
        self.command = np.zeros((n, len(Command)))
        self.state = np.zeros((n, len(State)))
        self.state[:, State.TEMPERATURE] = 30.0
        self.state[:, State.VOLTAGE] = voltage
        self.supply = np.atleast_1d(voltage).astype(float)
        self.stall = np.zeros(n, dtype=bool)
        self.time = self.foresight = self.behind = 0.0
        self.past = deque([(0.0, self.state.copy())], maxlen=30)

    def set_command(self, index, row, time):
        self.command[index] = row

    def set_goals(self, rows, goals, time):
        self.command[rows, GOAL] = goals

    def advance(self, until):
        before, moves = self.state.copy(), True
        while self.time < until:
            if moves:
                self._step(0.001)
                moves = not np.array_equal(self.state, before)  # else no later step changes anything, either
                before = self.state.copy()
            self.time += 0.001
            self.past.append((self.time, before))

    def sampled(self, rows, times):
        return np.array([self._when(time)[row] for row, time in zip(rows, times, strict=True)])

    def _when(self, time):
        if time > self.past[-1][0] - 0.001:
            return self.state  # also what a test has written there
        return next(state for reached, state in self.past if reached >= time)

    def _step(self, h):
        command, state = self.command, self.state
        state[:, State.VOLTAGE] = self.supply
        on = command[:, Command.TORQUE] > 0
        error = command[:, Command.GOAL] - state[:, State.ANGLE]
        duty = np.clip(error * 8, -1, 1)
        wheel = command[:, Command.MODE] == Mode.WHEEL_DUTY
        duty = np.where(wheel, command[:, Command.DUTY], duty)
        limit = command[:, Command.TORQUE_LIMIT]
        duty = np.clip(duty, -limit, limit) * on
        top = np.where((command[:, Command.SPEED] > 0) & ~wheel, command[:, Command.SPEED], FULL_SPEED)
        speed = np.clip(duty * FULL_SPEED, -top, top) * ~self.stall
        controlled = (command[:, Command.MODE] == Mode.WHEEL_SPEED) | (command[:, Command.MODE] == Mode.SPEED)
        speed = np.where(controlled & on & ~self.stall, command[:, Command.SPEED], speed)
        duty = np.where(controlled & on & self.stall, np.sign(command[:, Command.SPEED]) * limit, duty)
        state[:, State.SPEED] = speed
        state[:, State.DUTY] = duty
        state[:, State.ANGLE] += speed * h
        state[:, State.READING] = state[:, State.ANGLE]
        state[:, State.REFERENCE] = np.where(on, command[:, Command.GOAL], state[:, State.ANGLE])

    def place(self, index, angle):
        self.state[index, [State.ANGLE, State.READING]] = angle

    def close(self):
        """Nothing to release."""


def make_rig(ids=(1,), profile="ax-12a", **registers):
    """Servos whose shafts are in the middle; `profile` may be a mapping by id."""
    profiles = dict.fromkeys(ids, profile) if isinstance(profile, str) else profile
    servos = [{"name": f"s{n}", "joint": f"j{n}", "id": n, "profile": profiles[n], "registers": registers} for n in ids]
    return Rig.model_validate({"name": "test", "servo": servos})


def make_world(ids=(1,), profile="ax-12a", timing="wire", seed=0, volts=None, **registers):
    """Return the world of `make_rig`, with fake motors; `volts` is the supply, by default the first servo's nominal one."""
    rig = make_rig(ids, profile, **registers)
    volts = rig.specs[rig.servos[0].name].profile.electrics.nominal_voltage if volts is None else volts
    return World(rig, seed=seed, timing=timing, bank=FakeBank(len(ids), volts))


class Wire:
    """A host that sends bytes and receives replies for `patience` seconds of simulated time."""

    def __init__(self, world, patience=0.01):
        self.world = world
        self.line = world.lines["main"]
        self.patience = patience

    def __call__(self, data):
        return b"".join(
            delivery.data for delivery in self.deliveries(bytes.fromhex(data) if isinstance(data, str) else data)
        )

    def deliveries(self, data):
        """Return the replies with their times."""
        line, world = self.line, self.world
        line.send(data, world.now())
        received = []
        until = max(line.host_free, world.now()) + self.patience
        while (due := line.next_due) <= until:
            world.sleep_until(due)
            received += line.collect(due)
        world.sleep_until(until)
        return received

    def expect(self, request, reply):
        received = self(request)
        assert received == bytes.fromhex(reply), f"{request} -> {received.hex(' ')}, not {reply}"

    def write(self, address, *data):
        """Write bytes to servo 1 in Protocol 1.0; return the acknowledgement's error byte, None without one."""
        reply = self(v1.encode(1, Instruction.WRITE, bytes((address, *data))))
        return reply[4] if reply else None

    def read(self, address, length):
        """Read a number of servo 1 in Protocol 1.0."""
        reply = self(v1.encode(1, Instruction.READ, bytes((address, length))))
        assert reply[4] & ErrorFlag.RANGE == 0, reply
        return int.from_bytes(reply[5:-1], "little")

    def wait(self, seconds):
        self.world.sleep_until(self.world.now() + seconds)


class Host:
    """Reads and writes registers of one servo of a world in its own protocol."""

    def __init__(self, world, id=1, patience=0.01):
        self.world, self.wire, self.id = world, Wire(world, patience), id
        self.servo = next(servo for servo in world.servos.values() if servo.id == id)
        self._protocol = PROTOCOLS[self.servo.profile.protocol]

    def ask(self, code, params=b"", id=None):
        """Send an instruction; return the packets of the reply."""
        return self._protocol.decoder().feed(
            self.wire(self._protocol.encode(self.id if id is None else id, code, params))
        )

    def read(self, register):
        at = self.servo.profile.registers[register]
        (packet,) = self.ask(Instruction.READ, self._protocol.read_params(at.address, at.size))
        return at.decode(packet.params)

    def write(self, register, value, code=Instruction.WRITE):
        """Return the error byte of the acknowledgement, None without one."""
        at = self.servo.profile.registers[register]
        answers = self.ask(code, self._protocol.write_params(at.address, at.encode(value)))
        return answers[0].code if answers else None

    def wait(self, seconds):
        self.wire.wait(seconds)

    def state(self, **columns):
        """Set columns of the motor's state."""
        for name, value in columns.items():
            self.world.bank.state[self.servo.row, State[name.upper()]] = value

    @property
    def command(self):
        return self.world.bank.command[self.servo.row]
