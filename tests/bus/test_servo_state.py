"""Tests of the tables of a servo's states: each cell, and the rules that hold in all states."""

from itertools import product
from operator import attrgetter

import pytest

from axbridge.bus.servo_state import IMPOSSIBLE, TABLES, Action, Event, Link, Permission, States, Torque

CELLS = {  # by event and name of the state, because states of two machines have the same numbers
    (event, repr(state)): cell
    for machine, rows in TABLES.items()
    for event, row in rows.items()
    for state, cell in zip(machine, row, strict=True)
}
RESTARTS = Event.RESTART, Event.REVIVED, Event.RECOVERED, Event.MOTORS_OFF
as_tuple = attrgetter("link", "torque", "registers", "permission", "start")


def after(states, *events):
    """Apply these events; return their actions and the final states."""
    servo = States(*states)
    return [servo.apply(event) for event in events], as_tuple(servo)


@pytest.fixture(scope="module")
def steps():
    """Return action and states after each event in each state that a servo of a new cycle can reach."""
    impossible = {place for place, cell in CELLS.items() if cell is IMPOSSIBLE}
    visited, new = {}, {as_tuple(States())}
    while new:
        pairs = [
            (s, event) for s, event in product(new, Event) if not any((event, repr(state)) in impossible for state in s)
        ]
        visited |= {(states, event): after(states, event) for states, event in pairs}
        new = {states for _, states in visited.values()} - {states for states, _ in visited}
    return visited


def test_each_cell_is_reached_or_impossible_and_an_event_has_at_most_one_action(steps):
    reached = set()
    for (states, event), ((done,), changed) in steps.items():
        for place, state in enumerate(states):
            if (key := (event, repr(state))) in CELLS:
                reached.add(key)
                target, action = cell if isinstance(cell := CELLS[key], tuple) else (cell, None)
                assert changed[place] is target
                if action is Action.RESTART:  # followed by the event of this name
                    expected = (*states[:place], target, *states[place + 1 :])
                    assert (done, changed) == (None, after(expected, Event.RESTART)[1])
                else:
                    assert action in (None, done)
    assert reached == {key for key, cell in CELLS.items() if cell is not IMPOSSIBLE}
    for event, state in CELLS.keys() - reached:
        with pytest.raises(AssertionError, match=state):
            after(next(states for states, _ in steps if state in map(repr, states)), event)


def test_goals_are_sent_only_in_the_states_that_allow_them(steps):
    for states, _ in steps:
        link, torque, registers, permission, _ = (state.name for state in states)
        allowed = link in {"OK", "LOSING"} and (torque, registers, permission) == ("ON", "VERIFIED", "ALLOWED")
        assert States(*states).gets_goals == allowed


def test_only_the_owner_allows_a_withheld_servo_and_sets_up_one_after_a_power_loss(steps):
    for (states, event), (_, (_, torque, _, permission, _)) in steps.items():
        if states[3] is not Permission.ALLOWED:
            assert (permission is Permission.ALLOWED) == (event is Event.RECOVERED)
        if states[1] is Torque.UNPOWERED:
            assert (torque is Torque.ON) == (event in {Event.REVIVED, Event.RECOVERED})


def test_no_earlier_goal_is_sent_after_a_restart(steps):
    for (_, event), (_, states) in steps.items():
        if event in RESTARTS:
            assert steps[states, Event.GOAL][0][0] in {Action.HOLD_BACK, Action.START_SOFTLY}
            if states[0] is Link.OK:
                read = steps[states, Event.REPLY][1]
                assert steps[read, Event.GOAL][0] == [Action.START_SOFTLY]


@pytest.mark.parametrize(
    ("events", "actions", "gets_goals"),
    [
        ("NO_REPLY REPLY", [], True),
        ("NO_REPLY NO_REPLY NO_REPLY", ["NOTE_MISSING"], False),
        ("NO_REPLY NO_REPLY REPLY", ["NOTE_MISSING", "NOTE_RETURNED"], True),
        ("PORT_LOST NO_IDENTITY NO_REPLY", [], False),
        ("PORT_LOST NO_IDENTITY IDENTIFIED REPLY", ["NOTE_RETURNED"], True),
        ("POWER_GAP DOUBT", [], False),
        ("DOUBT REGISTERS_READ", [], True),
        ("TORQUE_RESET WITHHOLD REVIVED", ["NOTE_POWER_LOSS"], False),  # set up again, but still withheld
        ("TORQUE_OFF REVIVED", ["NOTE_TORQUE_OFF"], False),
        ("TORQUE_OFF NOT_SET_UP REVIVED", ["NOTE_TORQUE_OFF"], True),  # this program has also switched it off
        ("POWER_GAP RECOVERED", [], True),
        ("BEYOND_LIMIT BEYOND_LIMIT OFF_CONFIRMED WITHHOLD", ["NOTE_LIMIT"], False),
        ("BEYOND_LIMIT RECOVERED OFF_CONFIRMED", ["NOTE_LIMIT"], True),
        ("REPLY TORQUE_OFF TORQUE_ON GOAL GOAL", ["NOTE_TORQUE_OFF", "START_SOFTLY"], True),
    ],
)
def test_a_series_of_events_allows_or_stops_goals(events, actions, gets_goals):
    done, states = after((), *(Event[name] for name in events.split()))
    assert [action.name for action in done if action] == actions
    assert States(*states).gets_goals == gets_goals
