"""Exit policies: ``limp``, torque off; ``hold``, powered at the present position; ``park``, torque off in a pose.

Each change is read back from the servo before it counts as done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Literal

from axbridge.bus.base import Reply
from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.retries import CONFIRMED
from axbridge.errors import BusError, BusTimeout, PortError

Policy = Literal["limp", "hold", "park"]

_PARK_PERIOD = 0.02  # s


def limp(cycle: Cycle, names: Iterable[str] | None = None) -> dict[str, BusError]:
    """Switch off the torque of these servos (None: of all on the bus); return those that did not confirm, by name.

    A torque limit that is still rising, or that a blocked joint has, is set to its final value: later programs find it.
    """
    servos = cycle.servos if names is None else [cycle.servos_by_name[name] for name in names]
    off = {servo.id: (servo.protocol.torque_enable, b"\0") for servo in servos}
    try:
        if names is None:
            for protocol, ids in cycle.bus.by_protocol(off).items():
                cycle.bus.limp_all(protocol, ids)
        errors = _write_and_read(cycle, off, "is off")
    except PortError as error:
        return {servo.name: error for servo in servos}
    with contextlib.suppress(BusError):
        _end_soft_starts(cycle, [servo for servo in servos if servo.name not in errors])
    return errors


def disarm(cycle: Cycle, but: Container[str] = ()) -> None:
    """Write 0 to the Bus Watchdog of every servo that may have it armed, except these names, and verify it."""
    watchdogs = cycle.watchdogs
    servos = [servo for servo in cycle.servos if servo.id in watchdogs.maybe_armed and servo.name not in but]
    watchdogs.mark_unarmed(servo.id for servo in servos)
    failed = _write_and_read(cycle, {servo.id: (servo.protocol.watchdog or 0, b"\0") for servo in servos})
    watchdogs.maybe_armed -= {servo.id for servo in servos if servo.name not in failed}


def powerless(cycle: Cycle, patience: float) -> list[str]:
    """Return the servos without confirmed torque; all of them if another thread holds the bus for `patience` s."""
    try:
        with cycle.bus.turn.held(patience):
            torques = _torques(cycle, cycle.servos)
    except BusError:
        return list(cycle.servos_by_name)
    return [servo.name for servo in cycle.servos if torques[servo.id] != b"\1"]


def hold(cycle: Cycle) -> dict[str, BusError]:
    """Make the present position of every powered servo its goal, and stop wheels; return those that did not confirm.

    Servos without torque get no goal, because it would switch them on. A torque limit that is still rising is set to
    its final value: with a tenth of its torque a joint sinks.
    """
    try:
        wheels, errors = _stop_wheels(cycle)
        errors |= _goal_to_present(cycle, [servo for servo in cycle.servos if servo.name not in wheels | errors.keys()])
        held = [servo for servo in cycle.servos if servo.name not in wheels | errors.keys()]
        return errors | _end_soft_starts(cycle, held)
    except PortError as error:
        return dict.fromkeys(cycle.servos_by_name, error)


def _end_soft_starts(cycle: Cycle, servos: Sequence[CycleServo]) -> dict[str, BusError]:
    """Set these servos' rising or capped torque limits to their final values; return failures."""
    limits, ids = cycle.end_soft_starts(), {servo.id for servo in servos}
    return _write_and_read(cycle, {id_: (place, data) for (id_, place), data in limits.items() if id_ in ids})


def _write_and_read(
    cycle: Cycle, wanted: Mapping[int, tuple[int, bytes]], what: str = "holds it where it is"
) -> dict[str, BusError]:
    """Write bytes to an address of each servo, by id, until reading confirms them; return the failures by name."""
    left = dict(wanted)
    errors: dict[int, BusError] = {}
    for _ in range(CONFIRMED if left else 0):
        for ids in cycle.bus.by_protocol(left).values():
            for address in dict.fromkeys(left[id_][0] for id_ in ids):
                cycle.bus.sync_write(address, {id_: left[id_][1] for id_ in ids if left[id_][0] == address})
        requests = [(id_, address, len(data)) for id_, (address, data) in left.items()]
        for (id_, *_), answer in zip(requests, cycle.bus.read_many(requests), strict=True):
            if isinstance(answer, Reply) and answer.data == left[id_][1]:
                del left[id_]
            elif isinstance(answer, BusError):
                errors[id_] = answer
            else:
                errors[id_] = BusTimeout(id_, f"it did not confirm that its torque {what}: cut the servo supply")
        if not left:
            break
    return {servo.name: errors[servo.id] for servo in cycle.servos if servo.id in left}


def _read(cycle: Cycle, requests: Sequence[tuple[int, int, int]]) -> dict[int, bytes | BusError]:
    """Return the replies of these servos by id; lost replies are read again, because the policy depends on them."""
    replies: dict[int, bytes | BusError] = {id_: BusTimeout(id_) for id_, *_ in requests}
    for _ in range(CONFIRMED):
        lost = [request for request in requests if isinstance(replies[request[0]], BusError)]
        for (id_, *_), answer in zip(lost, cycle.bus.read_many(lost), strict=True):
            replies[id_] = answer if isinstance(answer, BusError) else answer.data or replies[id_]
    return replies


def _torques(cycle: Cycle, servos: Iterable[CycleServo]) -> dict[int, bytes | BusError]:
    return _read(cycle, [(servo.id, servo.protocol.torque_enable, 1) for servo in servos])


def _stop_wheels(cycle: Cycle) -> tuple[set[str], dict[str, BusError]]:
    """Stop the servos that turn endlessly; return their names, and the failures by name."""
    modes = _read(cycle, [(servo.id, *servo.protocol.mode) for servo in cycle.servos])
    errors: dict[str, BusError] = {}
    stop: dict[int, tuple[int, bytes]] = {}
    for servo in cycle.servos:
        if isinstance(mode := modes[servo.id], BusError):
            errors[servo.name] = mode
        elif goal := servo.protocol.endless_goal(mode):
            stop[servo.id] = goal[0], bytes(goal[1])
    return {servo.name for servo in cycle.servos if servo.id in stop}, errors | _write_and_read(cycle, stop)


def _goal_to_present(cycle: Cycle, servos: Sequence[CycleServo]) -> dict[str, BusError]:
    torques = _torques(cycle, servos)
    places = _read(cycle, [(servo.id, *servo.protocol.present_position) for servo in servos])
    errors: dict[str, BusError] = {}
    goals: dict[int, tuple[int, bytes]] = {}
    for servo in servos:
        if isinstance(torque := torques[servo.id], BusError):
            errors[servo.name] = torque
        elif isinstance(place := places[servo.id], BusError):
            errors[servo.name] = place
        elif torque[0]:
            goals[servo.id] = servo.protocol.goal_position[0], place
    return errors | _write_and_read(cycle, goals)


def park(
    cycle: Cycle, pose: Mapping[str, int], seconds: float = 3.0, *, given_up: Callable[[], bool] = lambda: False
) -> None:
    """Move to `pose` (Goal Position counts by name) at 11 rpm, for at most `seconds` or until `given_up`.

    The caller limps afterwards, also after errors. Only powered joints move: a goal would switch a limp joint on and
    would turn a wheel endlessly.
    """
    clock = cycle.bus.clock
    due = clock.now()
    end = due + seconds
    goals = _parkable(cycle, pose)
    here: dict[str, int] = {}
    near = {servo.name: servo.protocol.park_near for servo in cycle.servos}
    while goals and clock.now() < end and not given_up():
        here |= {name: state.position for name, state in cycle.exchange(goals).states.items() if name in goals}
        if here and all(abs(here[name] - goals[name].position) <= near[name] for name in here):
            break
        due += _PARK_PERIOD
        clock.sleep_until(due)


def _parkable(cycle: Cycle, pose: Mapping[str, int]) -> dict[str, Goal]:
    wheels, unknown = _stop_wheels(cycle)
    joints = [s for s in cycle.servos if s.name in pose and s.name not in wheels | unknown.keys()]
    torques = _torques(cycle, joints)  # a servo without a reply may have torque
    return {s.name: Goal(pose[s.name], s.protocol.park_speed) for s in joints if torques[s.id] != b"\0"}
