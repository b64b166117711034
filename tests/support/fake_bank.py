"""Motors with behaviour enough for firmware tests: each shaft goes to its goal in a first-order way, without load."""

from collections import deque

import numpy as np

from axbridge.servo.columns import Command, Mode, State

FULL_SPEED = 6.2  # rad/s


class FakeBank:
    """n servos, on one supply or each on its own; `stall` holds shafts still whatever their motors do."""

    def __init__(self, n=1, voltage=11.1):
        self.command = np.zeros((n, len(Command)))
        self.state = np.zeros((n, len(State)))
        self.state[:, State.TEMPERATURE] = 30.0
        self.state[:, State.VOLTAGE] = voltage
        self.supply = np.atleast_1d(voltage).astype(float)
        self.stall = np.zeros(n, dtype=bool)
        self.time = self.foresight = self.behind = 0.0
        self.closed = False
        self.ambient = 25.0
        self.temperature_offset = np.zeros(n)
        self.past = deque([(0.0, self.state.copy())], maxlen=30)

    def set_command(self, index, row, time):
        self.command[index] = row

    def set_goal(self, index, goal, speed, time):
        self.command[index, [Command.GOAL, Command.SPEED]] = goal, speed

    def advance(self, until):
        while self.time < until:
            self._step(0.001)
            self.time += 0.001
            self.past.append((self.time, self.state.copy()))

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
        controlled = np.isin(command[:, Command.MODE], (Mode.WHEEL_SPEED, Mode.SPEED))
        speed = np.where(controlled & on, command[:, Command.SPEED], speed)
        state[:, State.SPEED] = speed
        state[:, State.DUTY] = duty
        state[:, State.ANGLE] += speed * h
        state[:, State.READING] = state[:, State.ANGLE]
        state[:, State.REFERENCE] = np.where(on, command[:, Command.GOAL], state[:, State.ANGLE])

    def place(self, index, angle):
        self.state[index, [State.ANGLE, State.READING]] = angle

    def close(self):
        self.closed = True
