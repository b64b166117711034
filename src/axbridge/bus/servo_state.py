"""States of one servo in the cycle: tables of event x state -> state, action. No I/O; `States.apply` is one event.

Link: does it reply? After a lost port it must be the servo that it was before.

    OK --no reply--> LOSING --no reply--> MISSING --no identity on a port that is back--> UNIDENTIFIED
     ^----- reply ------+---- reply --------+  ^---------------- identified ------------------+
    (port lost: OK and LOSING -> MISSING)

Torque: has it torque, and if not, why?

    OFF_BY_OTHER <--torque off-- ON --registers reset--> UNPOWERED (until it is set up again: revived, recovered)
         +------ torque on -------^

Registers: is its torque as it was read last?

    VERIFIED --alarm, return, short gap--> DOUBTFUL --gap--> POWER_GAP --torque registers read--> VERIFIED

Permission: may the program drive it?

    ALLOWED --beyond a limit--> LIMPING --torque off is confirmed--> WITHHELD --recovered--> ALLOWED
       +------ shut down, overloaded, withheld by its owner -------------^

Start: where does its next goal begin?

    NEW --position read--> RUNNING --restart--> FROM_PRESENT --goal--> RUNNING
    (motors off: all -> NO_POSITION --position read--> FROM_PRESENT)

Torque, Registers and Permission are apart, because they change on their own. A withheld servo that loses its power is
set up again and stays withheld, and a servo in any state may report a new alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto


class Link(IntEnum):
    """Whether it replies."""

    OK = 0
    LOSING = 1  # its latest read failed
    MISSING = 2  # two reads in a row failed, or the port was lost: no goals until it replies
    UNIDENTIFIED = 3  # the port was lost, and the servo has not yet been compared with the one of before


class Torque(IntEnum):
    """Whether it has torque."""

    ON = 0  # as far as is known
    OFF_BY_OTHER = 1  # another program has switched it off: no goals until it is on again
    UNPOWERED = 2  # it was without power, or does not wake by a goal: no goals until it is set up again


class Registers(IntEnum):
    """Whether the torque registers are as they were read last."""

    VERIFIED = 0
    DOUBTFUL = 1  # no goals until they were read: a goal would switch on a servo that has shut itself down
    POWER_GAP = 2  # likewise, and the servo may have been without power since


class Permission(IntEnum):
    """Whether the program may drive it."""

    ALLOWED = 0
    LIMPING = 1  # beyond a limit of its rig; has not yet confirmed that its torque is off
    WITHHELD = 2  # no goals until `recover`


class Start(IntEnum):
    """Where its next goal begins."""

    NEW = 0  # a new cycle: the goal goes out as it is
    RUNNING = 1
    FROM_PRESENT = 2  # the next goal is its present position, and its torque rises
    NO_POSITION = 3  # likewise, once its position was read


class Event(Enum):
    """What happened to a servo."""

    REPLY = auto()  # a sample has come
    NO_REPLY = auto()
    PORT_LOST = auto()
    IDENTIFIED = auto()  # it is the servo that it was before the port was lost
    NO_IDENTITY = auto()  # it did not reply on the port that is back
    TORQUE_ON = auto()  # Torque Enable is 1
    TORQUE_OFF = auto()  # Torque Enable is 0 although a goal has gone out, and nothing says why
    TORQUE_RESET = auto()  # Torque Enable is 0, and other registers were reset as well
    DOUBT = auto()  # a new alarm, a return or a gap in its replies
    POWER_GAP = auto()  # a gap in which it may have been without power
    REGISTERS_READ = auto()  # its torque registers
    WITHHOLD = auto()  # it has shut itself down and its alarm says why, or its owner withholds goals
    OVERLOADED = auto()  # its Torque Limit is 0 without an alarm: an overload that is over
    BEYOND_LIMIT = auto()  # too hot, or its supply is wrong
    OFF_CONFIRMED = auto()  # its torque was switched off at a limit
    RESTART = auto()
    RETURNED = auto()  # after so long that it may have been without power
    MOTORS_OFF = auto()  # this program has switched the torque off
    NOT_SET_UP = auto()  # likewise, and a goal does not switch it on again
    REVIVED = auto()  # set up again after it was without power
    RECOVERED = auto()  # its owner lets it move again
    GOAL = auto()  # there is a goal for it


class Action(Enum):
    """What the cycle does about it."""

    NOTE_MISSING = auto()
    NOTE_RETURNED = auto()
    NOTE_ALARM = auto()
    NOTE_OVERLOAD = auto()
    NOTE_LIMIT = auto()
    NOTE_TORQUE_OFF = auto()
    NOTE_POWER_LOSS = auto()  # and its Bus Watchdog counts as not armed
    VOID_GOALS = auto()  # those of before must not be sent again
    RESTART = auto()  # the event of this name follows
    HOLD_BACK = auto()  # this goal
    START_SOFTLY = auto()  # from the present position


OK, LOSING, MISSING, UNIDENTIFIED = Link
ON, OFF_BY_OTHER, UNPOWERED = Torque
VERIFIED, DOUBTFUL, POWER_GAP = Registers
ALLOWED, LIMPING, WITHHELD = Permission
NEW, RUNNING, FROM_PRESENT, NO_POSITION = Start
IMPOSSIBLE = None

Cell = IntEnum | tuple[IntEnum, Action] | None
TABLES: Mapping[type[IntEnum], Mapping[Event, tuple[Cell, ...]]] = {  # one column for each state, in their order
    Link: {
        Event.REPLY: (OK, OK, (OK, Action.NOTE_RETURNED), IMPOSSIBLE),
        Event.NO_REPLY: (LOSING, (MISSING, Action.NOTE_MISSING), MISSING, UNIDENTIFIED),
        Event.PORT_LOST: (MISSING, MISSING, MISSING, UNIDENTIFIED),
        Event.IDENTIFIED: (IMPOSSIBLE, IMPOSSIBLE, MISSING, MISSING),
        Event.NO_IDENTITY: (IMPOSSIBLE, IMPOSSIBLE, UNIDENTIFIED, UNIDENTIFIED),
    },
    Torque: {
        Event.TORQUE_ON: (ON, (ON, Action.RESTART), UNPOWERED),
        Event.TORQUE_OFF: ((OFF_BY_OTHER, Action.NOTE_TORQUE_OFF), OFF_BY_OTHER, UNPOWERED),
        Event.TORQUE_RESET: ((UNPOWERED, Action.NOTE_POWER_LOSS), OFF_BY_OTHER, UNPOWERED),
        Event.NOT_SET_UP: (UNPOWERED, UNPOWERED, UNPOWERED),
        Event.REVIVED: (ON, OFF_BY_OTHER, ON),
        Event.RECOVERED: (ON, ON, ON),
    },
    Registers: {
        Event.DOUBT: (DOUBTFUL, DOUBTFUL, POWER_GAP),
        Event.POWER_GAP: (POWER_GAP, POWER_GAP, POWER_GAP),
        Event.REGISTERS_READ: (VERIFIED, VERIFIED, VERIFIED),
        Event.RECOVERED: (VERIFIED, VERIFIED, VERIFIED),
    },
    Permission: {
        Event.WITHHOLD: (WITHHELD, LIMPING, WITHHELD),
        Event.OVERLOADED: ((WITHHELD, Action.NOTE_OVERLOAD), LIMPING, WITHHELD),
        Event.BEYOND_LIMIT: ((LIMPING, Action.NOTE_LIMIT), LIMPING, WITHHELD),
        Event.OFF_CONFIRMED: (ALLOWED, WITHHELD, WITHHELD),  # ALLOWED: recovered while that write was under way
        Event.RECOVERED: (ALLOWED, ALLOWED, ALLOWED),
    },
    Start: {
        Event.REPLY: (RUNNING, RUNNING, FROM_PRESENT, FROM_PRESENT),
        Event.RESTART: (NO_POSITION, FROM_PRESENT, FROM_PRESENT, NO_POSITION),
        Event.REVIVED: (NO_POSITION, FROM_PRESENT, FROM_PRESENT, NO_POSITION),
        Event.RECOVERED: (NO_POSITION, FROM_PRESENT, FROM_PRESENT, NO_POSITION),
        Event.RETURNED: (
            IMPOSSIBLE, (FROM_PRESENT, Action.VOID_GOALS), (FROM_PRESENT, Action.VOID_GOALS),
            (NO_POSITION, Action.VOID_GOALS),
        ),
        Event.MOTORS_OFF: (NO_POSITION, NO_POSITION, NO_POSITION, NO_POSITION),
        Event.GOAL: (NEW, RUNNING, (RUNNING, Action.START_SOFTLY), (NO_POSITION, Action.HOLD_BACK)),
    },
}  # fmt: skip
_BY_EVENT = {
    event: [(kind.__name__.lower(), table[event]) for kind, table in TABLES.items() if event in table]
    for event in Event
}


@dataclass(slots=True)
class States:
    """The states of one servo."""

    link: Link = OK
    torque: Torque = ON
    registers: Registers = VERIFIED
    permission: Permission = ALLOWED
    start: Start = NEW

    def apply(self, event: Event) -> Action | None:
        """Change the states by an event; what is to be done about it.

        A state that stays is not written: a signal handler or another thread may change it meanwhile.
        """
        action = None
        for name, row in _BY_EVENT[event]:
            state = getattr(self, name)
            cell = row[state]
            assert cell is not None, f"{event} while {name} is {state!r}"
            after, action = cell if isinstance(cell, tuple) else (cell, action)
            if after is not state:
                setattr(self, name, after)
        return self.apply(Event.RESTART) if action is Action.RESTART else action

    @property
    def missing(self) -> bool:
        """Whether it gets neither goals nor, for a while, reads."""
        return self.link >= MISSING

    @property
    def gets_goals(self) -> bool:
        """Whether goals may go out to it."""
        return self.link < MISSING and not (self.torque or self.registers or self.permission)

    @property
    def irregular(self) -> bool:
        """Whether its next reply is examined by itself, or something is to be done after it."""
        start = self.start
        return bool(
            self.link
            or self.registers
            or self.torque is OFF_BY_OTHER
            or self.permission is LIMPING
            or start is NEW
            or start is NO_POSITION
        )
