"""A robot beside its simulated twin, step by step: what differs, and why. It looks on, and commands nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError
from axbridge.robot.connection import Connection
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.samples import Scales
from axbridge.robot.servo import Servo
from axbridge.robot.twin.residuals import is_shut_down, residuals_of
from axbridge.robot.twin.shadow import ShadowedBus
from axbridge.sim.support import Hand
from axbridge.state import BusEvent, Cause, ServoState


class Twin:
    """Looks at a robot's servos and their twins after each step."""

    def __init__(self, rig: Rig, connection: Connection, servos: Mapping[str, Servo]) -> None:
        self._connection = connection
        self._servos = servos
        self._residuals = residuals_of(rig)
        drives = [drive for drive in connection.drives.values() if isinstance(drive, DynamixelDrive)]
        self._lines = [
            (bus, Scales([drive for drive in drives if drive.bus is bus]))
            for bus in connection.backend.buses.values()
            if isinstance(bus, ShadowedBus)
        ]
        self._on_since = 0.0  # when no motor was on last, s

    def states(self, start: float) -> dict[str, ServoState]:
        """What the simulated servos measure now, by name."""
        states: dict[str, ServoState] = {}
        for bus, scales in self._lines:
            with bus.turn, bus.turn.lock:  # nobody else moves the world on meanwhile
                bus.follow()
                states |= bus.shadow.table(scales, start)
        return states

    def compare(self, time: float, start: float, hand: Hand | None, *, late: bool) -> tuple[BusEvent, ...]:
        """What is newly wrong with servos that do not do as their models say."""
        try:
            twins = self.states(start)
        except AxBridgeError:
            return ()  # the simulation has failed: that was said, and the robot goes on
        states = {name: servo.state for name, servo in self._servos.items()}
        self._follow_limp(states, twins)
        held = self._is_held(time, hand)
        goals = {
            name: servo.goals.position
            if servo.torque_enabled and servo.available_torque == servo.max_torque and not held
            else math.nan
            for name, servo in self._servos.items()
        }
        found = self._residuals.update(time, states, twins, goals, late=late)
        return tuple(BusEvent(cause, name) for cause, name in found)

    def causes(self, time: float) -> Mapping[str, Sequence[Cause]]:
        """What is wrong at this time of the robot, s, by servo."""
        return self._residuals.present(time)

    def _follow_limp(self, states: Mapping[str, ServoState], twins: Mapping[str, ServoState]) -> None:
        """Put the twins of limp servos where those are; shut down the twins of those that are shut down."""
        back = {event.name for event in self._connection.events if event.kind == "returned"}
        for bus, scales in self._lines:
            with bus.turn, bus.turn.lock:
                for drive in scales.on_bus:
                    name = drive.config.name
                    shut_down = is_shut_down(states[name])
                    led = name in back or drive.id in bus.switched_on  # while nobody stepped
                    if shut_down or led or not self._servos[name].torque_enabled:
                        bus.shadow.follow_limp(drive, states[name].position, twins[name].position)
                    if shut_down:
                        bus.shadow.shut_down(name)
                bus.switched_on.clear()

    def _is_held(self, time: float, hand: Hand | None) -> bool:
        """Hold the simulation of a robot that stands free until its motors do, as somebody holds the robot."""
        if not any(servo.torque_enabled for servo in self._servos.values()):
            self._on_since = time
        return hand is not None and hand.holds(time - self._on_since)
