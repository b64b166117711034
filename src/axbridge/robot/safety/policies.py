"""How motors are left: ``limp``, torque off; ``hold``, powered where they are; ``park``, off in a pose.

Nothing counts as done before the servo itself has said so. `axbridge.robot.safety.net` says when a policy is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Literal

from axbridge.bus.base import Reply
from axbridge.bus.cycle import Cycle, Goal
from axbridge.bus.protocols.protocol import Protocol
from axbridge.errors import BusError, BusTimeout, PortError

Policy = Literal["limp", "hold", "park"]

_ATTEMPTS = 5
_PARK_PERIOD = 0.02  # s


def limp(cycle: Cycle, names: Iterable[str] | None = None) -> dict[str, BusError]:
    """Switch the torque of these servos off (None: of every servo on the line) and look that it is off; tries them all.

    Returns the servos that did not confirm, by name.
    """
    servos = cycle.servos if names is None else [cycle.servos_by_name[name] for name in names]
    left = {servo.id: servo.name for servo in servos}
    errors: dict[str, BusError] = {}
    try:
        for attempt in range(_ATTEMPTS):
            for protocol, here in cycle.bus.by_protocol(left).items():
                if names is None:
                    cycle.bus.limp_all(protocol)
                if attempt or names is not None:  # a broadcast did not reach them: one by one
                    cycle.bus.sync_write(protocol.torque_enable, dict.fromkeys(here, b"\0"))
            asked = list(left)
            for id_, answer in zip(asked, cycle.bus.read_many(torque_reads(cycle, asked)), strict=True):
                if isinstance(answer, Reply) and answer.data == b"\0":
                    errors.pop(left.pop(id_), None)
                else:
                    errors[left[id_]] = answer if isinstance(answer, BusError) else _unconfirmed(id_, "is off")
            if not left:
                break
    except PortError as error:
        errors.update(dict.fromkeys(left.values(), error))
    return errors


def disarm(cycle: Cycle, but: Container[str] = ()) -> None:
    """Write 0 to the Bus Watchdog of every servo that may be armed, and look that it is there; not of those named."""
    touched = cycle.watchdogs.touched
    ids = [servo.id for servo in cycle.servos if servo.id in touched and servo.name not in but]
    cycle.watchdogs.forget(ids)
    for protocol, here in cycle.bus.by_protocol(ids).items():
        assert protocol.watchdog is not None  # or it would not have been touched
        failed = _write_and_look(cycle, protocol.watchdog, dict.fromkeys(here, b"\0"))
        cycle.watchdogs.touched -= set(here) - set(failed)


def torque_reads(cycle: Cycle, ids: Iterable[int]) -> list[tuple[int, int, int]]:
    """What to read of these servos to know whether they have torque: one byte each."""
    return [(id_, cycle.bus.protocol(id_).torque_enable, 1) for id_ in ids]


def _unconfirmed(id: int, what: str) -> BusError:
    return BusTimeout(id, f"it did not confirm that its torque {what}: cut the servo supply")


def hold(cycle: Cycle) -> dict[str, BusError]:
    """Make the present position of every powered servo its goal, and look that it is. Wheels stop turning.

    Servos without torque stay without: writing a goal would switch it on. A torque limit that rose softly is what it
    was to be: with a tenth of its torque a joint sinks. Returns the servos that could not be read or did not take that,
    by name.
    """
    errors: dict[str, BusError] = {}
    try:
        wheels = _stop_wheels(cycle, errors)
        joints = {servo.id: servo.name for servo in cycle.servos if servo.name not in wheels | set(errors)}
        _goal_to_present(cycle, joints, errors)
        _end_soft_starts(cycle, set(joints.values()) - set(errors), errors)
    except PortError as error:
        errors |= dict.fromkeys(cycle.servos_by_name, error)
    return errors


def _end_soft_starts(cycle: Cycle, joints: Container[str], errors: dict[str, BusError]) -> None:
    limits = {cycle.servos_by_name[name].id: limit for name, limit in cycle.end_soft_starts().items() if name in joints}
    for protocol, ids in cycle.bus.by_protocol(limits).items():
        blocks = {id_: protocol.word(limits[id_]) for id_ in ids}
        errors |= _named(cycle, _write_and_look(cycle, protocol.torque_limit, blocks))


def _named(cycle: Cycle, errors: Mapping[int, BusError]) -> dict[str, BusError]:
    """Errors by name instead of id."""
    return {servo.name: errors[servo.id] for servo in cycle.servos if servo.id in errors}


def _write_and_look(cycle: Cycle, address: int, blocks: Mapping[int, bytes]) -> dict[int, BusError]:
    """Write these bytes until each servo says that it has them; the servos that did not, by id."""
    left = dict(blocks)
    errors: dict[int, BusError] = {}
    for _ in range(_ATTEMPTS):
        if not left:
            break
        cycle.bus.sync_write(address, left)
        asked = list(left)
        answers = cycle.bus.read_many([(id_, address, len(left[id_])) for id_ in asked])
        for id_, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Reply) and answer.data == left[id_]:
                del left[id_]
                errors.pop(id_, None)
            else:
                errors[id_] = answer if isinstance(answer, BusError) else _unconfirmed(id_, "holds it where it is")
    return errors


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


def _stop_wheels(cycle: Cycle, errors: dict[str, BusError]) -> set[str]:
    """Let the servos that turn endlessly stand still; their names. Those that failed: `errors`."""
    modes = _read(cycle, [(servo.id, *servo.protocol.mode) for servo in cycle.servos])
    turning: dict[tuple[Protocol, int, int], dict[int, str]] = {}
    for servo, answer in zip(cycle.servos, modes, strict=True):
        if isinstance(answer, BusError) or not answer.data:
            errors[servo.name] = answer if isinstance(answer, BusError) else BusTimeout(servo.id)
        elif goal := servo.protocol.endless_goal(answer.data):
            turning.setdefault((servo.protocol, *goal), {})[servo.id] = servo.name
    for (_, address, size), names in turning.items():
        errors |= _named(cycle, _write_and_look(cycle, address, dict.fromkeys(names, bytes(size))))
    return {name for names in turning.values() for name in names.values()}


def park(
    cycle: Cycle, pose: Mapping[str, int], seconds: float = 3.0, *, given_up: Callable[[], bool] = lambda: False
) -> None:
    """Move to `pose` (Goal Position counts by name) at 11 rpm, for at most `seconds` or until `given_up`.

    The caller limps afterwards, whatever went wrong on the way. Only powered joints move: a goal would switch a limp
    one on, and would send a wheel round and round.
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
    unknown: dict[str, BusError] = {}
    wheels = _stop_wheels(cycle, unknown)
    stay = wheels | set(unknown)
    joints = {name: cycle.servos_by_name[name] for name in pose if name in cycle.servos_by_name and name not in stay}
    answers = _read(cycle, torque_reads(cycle, [servo.id for servo in joints.values()]))
    return {
        name: Goal(pose[name], joints[name].protocol.park_speed)
        for name, answer in zip(joints, answers, strict=True)
        if not isinstance(answer, Reply) or answer.data != b"\0"  # one that did not answer now may have torque
    }


def _goal_to_present(cycle: Cycle, joints: Mapping[int, str], errors: dict[str, BusError]) -> None:
    torques = _read(cycle, torque_reads(cycle, joints))
    places = _read(cycle, [(id_, *cycle.bus.protocol(id_).present_position) for id_ in joints])
    goals: dict[int, bytes] = {}
    for (id_, name), torque, place in zip(joints.items(), torques, places, strict=True):
        for answer in (torque, place):
            if isinstance(answer, BusError) or not answer.data:
                errors[name] = answer if isinstance(answer, BusError) else BusTimeout(id_)
        if name not in errors and isinstance(torque, Reply) and isinstance(place, Reply) and torque.data[0]:
            goals[id_] = place.data
    for protocol, ids in cycle.bus.by_protocol(goals).items():
        failed = _write_and_look(cycle, protocol.goal_position[0], {id_: goals[id_] for id_ in ids})
        errors |= _named(cycle, failed)
