"""Which servo is meant, and which way it turns, shown on the robot itself: its LED blinks, its motor moves a little."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from axbridge import minimum_jerk
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import BusError, ProfileError, UsageError
from axbridge.robot.robot import Robot
from axbridge.robot.servo import Servo
from axbridge.units import Calibration

NUDGE = math.radians(5)  # one way, and back
VISIBLE = math.radians(1.5)  # of it: friction keeps a loop without an integral back by two degrees and more
TORQUE = 0.2  # of what the servo can: it moves a joint that a hand carries, and a finger stops it
_GOES, _STAYS = 0.4, 0.4  # s: to its end, there, and back
_HELD = 0.6 * NUDGE  # this far behind its goal, something holds the joint: it gives in before it is an overload
_SILENT = 1.0  # s without an answer: the way waits for a busy computer, not for a servo that is gone
_BLINK = 0.4  # s on, and as long off


@contextmanager
def blinking(robot: Robot, name: str) -> Iterator[Callable[[], None]]:
    """Let a servo's LED blink in the block, while the robot is stepped; afterwards it is as it was.

    An LED is a help, no more: one that cannot be reached is no error.
    """
    servo = robot[name]
    shown = before = 0
    with suppress(BusError, ProfileError):
        shown = before = servo.read("led")

    def blink() -> None:
        nonlocal shown
        wanted = int(robot.time / _BLINK) % 2
        if wanted != shown:
            shown = wanted
            with suppress(BusError, ProfileError):
                servo.write("led", wanted)

    try:
        yield blink
    finally:
        with suppress(BusError, ProfileError):
            servo.write("led", before)


def nudge(robot: Robot, name: str, after_step: Callable[[], None] = lambda: None) -> float:
    """Move a servo with little torque by `NUDGE` towards larger angles, and back. It is limp then, in any case."""
    servo = robot[name]
    here = servo.position
    profile = robot.rig.profile_of(servo.config)
    names = profile.names
    before = limits_of(robot, name)
    if servo.dynamixel.shut_down:
        again = PROTOCOLS[profile.protocol].revival.format(id=servo.config.id)
        raise UsageError(f"{name} has shut itself down", f"when the cause is gone: axbridge servo {again}")
    low, high = _range(servo, profile)
    if not low + NUDGE <= here <= high - NUDGE:
        raise UsageError(
            f"{name} stands at {math.degrees(here):.0f}°, near the end of its range, "
            f"{math.degrees(low):.0f} to {math.degrees(high):.0f}°",
            "move the joint away from there by hand",
        )
    farthest = 0.0
    held = _HELD if profile.protocol == 1 else NUDGE  # the loops of others have no integral
    try:
        servo.set_available_torque(TORQUE * servo.max_torque)
        servo.write(names.torque, round(TORQUE * profile.units.full_scale))
        servo.torque_on()
        tick = robot.basic_time_step / 1000
        passed = silent = 0.0  # s of the way, which waits while no answer comes; and how long none has come
        while passed < 2 * _GOES + _STAYS:
            there, back = passed / _GOES, (passed - _GOES - _STAYS) / _GOES
            wanted = here + NUDGE * (minimum_jerk.way(there) - minimum_jerk.way(back))
            servo.set_position(wanted)
            if robot.step() == -1:
                break
            after_step()
            if error := robot.last_step.errors.get(name):
                silent += tick
                if silent > _SILENT:
                    raise error
                continue
            passed, silent = passed + tick, 0.0
            farthest = max(farthest, abs(servo.position - here))
            if abs(wanted - servo.position) > held:
                break
    finally:
        with suppress(BusError):  # it must not hide what ended this; and the robot's own end switches it off as well
            give_back(robot, name, before)
        servo.set_available_torque(servo.max_torque)
    return farthest


def limits_of(robot: Robot, name: str) -> dict[str, int]:
    """The registers that a move with little torque leaves changed, by name, as they are now."""
    servo = robot[name]
    names = robot.rig.profile_of(servo.config).names
    return {register: servo.read(register) for register in (names.speed, names.torque)}


def give_back(robot: Robot, name: str, before: Mapping[str, int]) -> None:
    """Make a servo limp, and give it back what `limits_of` read; one that has shut itself down is not woken."""
    servo = robot[name]
    servo.torque_off()
    if not servo.dynamixel.shut_down:  # writing what limits its torque would wake one of Protocol 1.0
        for register, value in before.items():
            servo.write(register, value)


def _range(servo: Servo, profile: FirmwareProfile) -> tuple[float, float]:
    """Where a servo may go, by its own angle limits and by the rig, rad."""
    names = profile.names
    limits = servo.read(names.low), servo.read(names.high)
    if limits[0] >= limits[1]:
        raise UsageError(
            f"{servo.name} turns as a wheel: its angle limits are {limits[0]} and {limits[1]}", "turn it by hand"
        )
    mounted = Calibration(profile.units, servo.config.zero, servo.config.direction)
    low, high = sorted(mounted.angle(count) for count in limits)
    return max(low, servo.min_position), min(high, servo.max_position)
