"""States of one servo in the cycle, as tables: event x state -> state, action. No I/O.

Link: whether the servo replies. When a lost port is back, the servo must be identified as the same one.

    OK --no reply--> LOSING --no reply--> MISSING --no identity--> UNIDENTIFIED --identified--> MISSING
    LOSING, MISSING --reply--> OK         OK, LOSING --port lost--> MISSING

Torque: whether torque is on. OFF_BY_OTHER: another program has switched it off. UNPOWERED: the servo was without power
and must be set up again. If a goal does not switch torque on, the same applies after this program's torque off (not set
up).

    ON --torque off--> OFF_BY_OTHER --torque on, recovered--> ON
    ON --torque reset, not set up--> UNPOWERED --revived, recovered--> ON       OFF_BY_OTHER --not set up--> UNPOWERED

Registers: whether the torque registers still have the values that were read last. A servo that shuts down sets its
Torque Limit or Torque Enable to 0, and a write to either switches torque on again. So both are read before a goal.

    VERIFIED --doubt--> DOUBTFUL        DOUBTFUL, POWER_GAP --registers read, recovered--> VERIFIED
    VERIFIED, DOUBTFUL --power gap--> POWER_GAP

Permission: whether the program may drive it. LIMPING lasts until the servo confirms that its torque is off.

    ALLOWED --beyond limit--> LIMPING --off confirmed--> WITHHELD       LIMPING, WITHHELD --recovered--> ALLOWED
    ALLOWED --withhold, overloaded--> WITHHELD

Start: where the next motion begins. FROM_PRESENT: the next goal is the present position, and the torque limit rises.

    NEW --reply--> RUNNING --restart, revived, recovered--> FROM_PRESENT --goal--> RUNNING
    any --motors off--> NO_POSITION --reply--> FROM_PRESENT             NEW --restart, revived, recovered--> NO_POSITION

A servo that has shut down may also lose its power. It is then set up again, and stays withheld. Torque, Registers and
Permission are therefore separate machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

# A servo gets goals in state 0 of Torque, Registers and Permission, and in states 0 and 1 of Link.
Link = IntEnum("Link", "OK LOSING MISSING UNIDENTIFIED", start=0)
Torque = IntEnum("Torque", "ON OFF_BY_OTHER UNPOWERED", start=0)
Registers = IntEnum("Registers", "VERIFIED DOUBTFUL POWER_GAP", start=0)
Permission = IntEnum("Permission", "ALLOWED LIMPING WITHHELD", start=0)
Start = IntEnum("Start", "NEW RUNNING FROM_PRESENT NO_POSITION", start=0)
Event = IntEnum(
    "Event",
    "REPLY NO_REPLY PORT_LOST IDENTIFIED NO_IDENTITY TORQUE_ON TORQUE_OFF TORQUE_RESET NOT_SET_UP DOUBT POWER_GAP "
    "REGISTERS_READ WITHHOLD OVERLOADED BEYOND_LIMIT OFF_CONFIRMED RESTART MOTORS_OFF REVIVED RECOVERED GOAL",
    start=0,
)
Action = Enum(  # each NOTE becomes a `BusEvent`; RESTART applies the event of the same name
    "Action",
    "NOTE_MISSING NOTE_RETURNED NOTE_ALARM NOTE_OVERLOAD NOTE_LIMIT NOTE_TORQUE_OFF NOTE_POWER_LOSS "
    "VOID_GOALS RESTART HOLD_BACK START_SOFTLY",
)

OK, LOSING, MISSING, UNIDENTIFIED = Link
ON, OFF_BY_OTHER, UNPOWERED = Torque
VERIFIED, DOUBTFUL, POWER_GAP = Registers
ALLOWED, LIMPING, WITHHELD = Permission
NEW, RUNNING, FROM_PRESENT, NO_POSITION = Start
IMPOSSIBLE = None

Cell = IntEnum | tuple[IntEnum, Action] | None
TABLES: Mapping[type[IntEnum], Mapping[Event, tuple[Cell, ...]]] = {  # one column for each state, in enum order
    Link: {
        Event.REPLY: (OK, OK, (OK, Action.NOTE_RETURNED), IMPOSSIBLE),
        Event.NO_REPLY: (LOSING, (MISSING, Action.NOTE_MISSING), MISSING, UNIDENTIFIED),
        Event.PORT_LOST: (MISSING, MISSING, MISSING, UNIDENTIFIED),
        Event.IDENTIFIED: (IMPOSSIBLE, IMPOSSIBLE, MISSING, MISSING),  # the EEPROM is the same as before
        Event.NO_IDENTITY: (IMPOSSIBLE, IMPOSSIBLE, UNIDENTIFIED, UNIDENTIFIED),  # no reply on the reopened port
    },
    Torque: {
        Event.TORQUE_ON: (ON, (ON, Action.RESTART), UNPOWERED),  # Torque Enable is 1
        Event.TORQUE_OFF: ((OFF_BY_OTHER, Action.NOTE_TORQUE_OFF), OFF_BY_OTHER, UNPOWERED),  # 0 after a goal
        Event.TORQUE_RESET: ((UNPOWERED, Action.NOTE_POWER_LOSS), OFF_BY_OTHER, UNPOWERED),  # 0, other RAM reset too
        Event.NOT_SET_UP: (UNPOWERED, UNPOWERED, UNPOWERED),  # motors off, and a goal does not switch them on
        Event.REVIVED: (ON, OFF_BY_OTHER, ON),  # set up again
        Event.RECOVERED: (ON, ON, ON),  # the owner lets the servo move again
    },
    Registers: {
        Event.DOUBT: (DOUBTFUL, DOUBTFUL, POWER_GAP),  # a new alarm, a return, or a gap in the replies
        Event.POWER_GAP: (POWER_GAP, POWER_GAP, POWER_GAP),  # the servo may have been without power
        Event.REGISTERS_READ: (VERIFIED, VERIFIED, VERIFIED),
        Event.RECOVERED: (VERIFIED, VERIFIED, VERIFIED),
    },
    Permission: {
        Event.WITHHOLD: (WITHHELD, LIMPING, WITHHELD),  # the alarm reports a shutdown, or the owner withholds goals
        Event.OVERLOADED: ((WITHHELD, Action.NOTE_OVERLOAD), LIMPING, WITHHELD),  # Torque Limit 0 without an alarm
        Event.BEYOND_LIMIT: ((LIMPING, Action.NOTE_LIMIT), LIMPING, WITHHELD),  # temperature or supply beyond limits
        Event.OFF_CONFIRMED: (ALLOWED, WITHHELD, WITHHELD),  # ALLOWED: recovered during that write
        Event.RECOVERED: (ALLOWED, ALLOWED, ALLOWED),
    },
    Start: {
        Event.REPLY: (RUNNING, RUNNING, FROM_PRESENT, FROM_PRESENT),
        Event.RESTART: (NO_POSITION, FROM_PRESENT, FROM_PRESENT, NO_POSITION),  # earlier goals are void
        Event.REVIVED: (NO_POSITION, FROM_PRESENT, FROM_PRESENT, NO_POSITION),
        Event.RECOVERED: (NO_POSITION, FROM_PRESENT, FROM_PRESENT, NO_POSITION),
        Event.MOTORS_OFF: (NO_POSITION, NO_POSITION, NO_POSITION, NO_POSITION),  # by this program
        Event.GOAL: (NEW, RUNNING, (RUNNING, Action.START_SOFTLY), (NO_POSITION, Action.HOLD_BACK)),
    },
}
_ROWS = [
    [(machine.__name__.lower(), rows[event]) for machine, rows in TABLES.items() if event in rows] for event in Event
]


@dataclass(slots=True)
class States:
    """The states of one servo."""

    link: Link = OK
    torque: Torque = ON
    registers: Registers = VERIFIED
    permission: Permission = ALLOWED
    start: Start = NEW

    def apply(self, event: Event) -> Action | None:
        """Change the states by an event, and return the action.

        A state that does not change is not written, because a signal handler or another thread may change it meanwhile.
        """
        action = None
        for name, row in _ROWS[event]:
            state = getattr(self, name)
            cell = row[state]
            assert cell is not None, f"{event!r} in {state!r}"
            after, action = cell if isinstance(cell, tuple) else (cell, action)
            if after is not state:
                setattr(self, name, after)
        return self.apply(Event.RESTART) if action is Action.RESTART else action

    @property
    def missing(self) -> bool:
        """Return whether the servo is read only after pauses, and gets no goals."""
        return self.link >= MISSING

    @property
    def gets_goals(self) -> bool:
        """Return whether goals may be sent to the servo."""
        return self.link <= LOSING and not (self.torque or self.registers or self.permission)

    @property
    def irregular(self) -> bool:
        """Return whether the next reply must be examined singly, or needs an action after it."""
        unread = self.start in (NEW, NO_POSITION)
        return bool(self.link or self.registers or unread) or self.torque is OFF_BY_OTHER or self.permission is LIMPING
