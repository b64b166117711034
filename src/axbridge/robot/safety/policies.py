"""How motors are left: ``limp``, torque off; ``hold``, powered where they are; ``park``, off in a pose.

`axbridge.robot.safety.net` says when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from axbridge.bus.base import Reply
from axbridge.bus.cycle import GOAL_POSITION, PRESENT, TORQUE_ENABLE, Cycle, CycleServo, Goal
from axbridge.errors import BusError, BusTimeout, PortError
from axbridge.packets import BROADCAST

__all__ = ["Policy", "hold", "limp", "park"]

Policy = Literal["limp", "hold", "park"]

_ATTEMPTS = 3
_ANGLE_LIMITS, _MOVING_SPEED = 6, 32  # addresses; both limits 0: the servo turns endlessly
_PARK_SPEED = 100  # counts: 11 rpm
_PARK_NEAR = 6  # counts: about 2 degrees
_PARK_PERIOD = 0.02  # s


def limp(cycle: Cycle) -> dict[str, BusError]:
    """Switch the torque of every servo off and look that it is off; tries them all, whatever fails.

    Returns the servos that did not confirm, by name.
    """
    left = {servo.id: servo.name for servo in cycle.servos}
    errors: dict[str, BusError] = {}
    try:
        for attempt in range(_ATTEMPTS):
            cycle.bus.write(BROADCAST, TORQUE_ENABLE, b"\0")
            if attempt:  # a broadcast did not reach them: one by one
                cycle.bus.sync_write(TORQUE_ENABLE, dict.fromkeys(left, b"\0"))
            asked = list(left)
            for id_, answer in zip(asked, cycle.bus.read_many([(id_, TORQUE_ENABLE, 1) for id_ in asked]), strict=True):
                if isinstance(answer, Reply) and answer.data == b"\0":
                    errors.pop(left.pop(id_), None)
                else:
                    errors[left[id_]] = answer if isinstance(answer, BusError) else _still_on(id_)
            if not left:
                break
    except PortError as error:
        errors.update(dict.fromkeys(left.values(), error))
    return errors


def _still_on(id: int) -> BusError:
    return BusTimeout(id, "it did not confirm that its torque is off: cut the servo supply")


def hold(cycle: Cycle) -> dict[str, BusError]:
    """Make the present position of every powered servo its goal. Returns the servos that could not be read, by name.

    Servos without torque stay without: writing a goal would switch it on. Wheels stop turning.
    """
    try:
        wheels = _stop_wheels(cycle)
    except PortError as error:
        return dict.fromkeys(cycle.servos_by_name, error)
    joints = {name: servo for name, servo in cycle.servos_by_name.items() if name not in wheels}
    return _goal_to_present(cycle, joints)


def _read(cycle: Cycle, requests: Sequence[tuple[int, int, int]]) -> list[Reply | BusError]:
    """As `Bus.read_many`, but what was lost is asked again: on it depends who moves."""
    answers = cycle.bus.read_many(requests)
    for _ in range(_ATTEMPTS - 1):
        lost = [place for place, answer in enumerate(answers) if not isinstance(answer, Reply)]
        if not lost:
            break
        for place, answer in zip(lost, cycle.bus.read_many([requests[place] for place in lost]), strict=True):
            answers[place] = answer
    return answers


def _stop_wheels(cycle: Cycle) -> set[str]:
    """Let the servos that turn endlessly stand still; their names."""
    limits = _read(cycle, [(servo.id, _ANGLE_LIMITS, 4) for servo in cycle.servos])
    wheels = {
        servo.name: servo.id
        for servo, answer in zip(cycle.servos, limits, strict=True)
        if isinstance(answer, Reply) and answer.data == bytes(4)
    }
    if wheels:
        cycle.bus.sync_write(_MOVING_SPEED, dict.fromkeys(wheels.values(), bytes(2)))
    return set(wheels)


def park(
    cycle: Cycle, pose: Mapping[str, int], seconds: float = 3.0, *, given_up: Callable[[], bool] = lambda: False
) -> dict[str, BusError]:
    """Move to `pose` (Goal Position counts by name) at 11 rpm, for at most `seconds` or until `given_up`, then limp.

    Only powered joints move: a goal would switch a limp one on, and would send a wheel round and round.
    Returns the servos that did not confirm that their torque is off, by name.
    """
    clock = cycle.bus.clock
    due = clock.now()
    end = due + seconds
    try:
        goals = _parkable(cycle, pose)
    except PortError:
        goals = {}  # limp names them
    here: dict[str, int] = {}
    while goals and clock.now() < end and not given_up():
        here |= {name: state.position for name, state in cycle.exchange(goals).states.items() if name in goals}
        if here and all(abs(position - goals[name].position) <= _PARK_NEAR for name, position in here.items()):
            break
        due += _PARK_PERIOD
        clock.sleep_until(due)
    return limp(cycle)


def _parkable(cycle: Cycle, pose: Mapping[str, int]) -> dict[str, Goal]:
    wheels = _stop_wheels(cycle)
    joints = {name: cycle.servos_by_name[name] for name in pose if name in cycle.servos_by_name and name not in wheels}
    answers = _read(cycle, [(servo.id, TORQUE_ENABLE, 1) for servo in joints.values()])
    return {
        name: Goal(pose[name], _PARK_SPEED)
        for name, answer in zip(joints, answers, strict=True)
        if not isinstance(answer, Reply) or answer.data != b"\0"  # one that did not answer now may have torque
    }


def _goal_to_present(cycle: Cycle, servos: Mapping[str, CycleServo]) -> dict[str, BusError]:
    errors: dict[str, BusError] = {}
    goals: dict[int, bytes] = {}
    try:
        answers = _read(cycle, [(servo.id, TORQUE_ENABLE, PRESENT + 2 - TORQUE_ENABLE) for servo in servos.values()])
        for (name, servo), answer in zip(servos.items(), answers, strict=True):
            if not isinstance(answer, Reply) or not answer.data:
                errors[name] = answer if isinstance(answer, BusError) else BusTimeout(servo.id)
            elif answer.data[0]:
                goals[servo.id] = answer.data[-2:]
        if goals:
            cycle.bus.sync_write(GOAL_POSITION, goals)
    except PortError as error:
        errors.update(dict.fromkeys(servos, error))
    return errors
