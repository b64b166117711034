"""A program that holds motors until it is ended: `axbridge verify` ends it by a signal, and looks what the motors do.

Usage: ``python -m axbridge.verify.holder RIG PORT NAME,NAME``; PORT may be empty. When torque has come on, it prints
how far a servo went to its goal, and how far one sank under its load, both in rad. Then it holds until its standard
input ends, which it does when the one who has started it is dead.
"""

from __future__ import annotations

import select
import sys

from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError
from axbridge.robot.open import open_robot
from axbridge.verify.first_drive import SHARE, calm

_SETTLES = 0.3  # s
_LONGEST = 20.0  # s: nobody has to end it


def hold(rig: Rig, port: str, names: list[str]) -> None:
    """Switch these servos on where they are, at little torque, and hold.

    Raises:
        AxBridgeError: the robot cannot be opened or held.
    """
    with open_robot(calm(rig), "real", port=port or None) as robot:
        before = {name: robot[name].read("present_position") for name in names}
        for name in names:
            robot[name].set_available_torque(SHARE * robot[name].max_torque)
            robot[name].torque_on()
        while robot.time < _SETTLES:
            robot.step()
        driven = sank = 0.0
        for config in (servo for servo in rig.servos if servo.name in before):
            servo, count = robot[config.name], rig.profile_of(config).units.position
            went = moved(before[config.name], servo.read("present_position"), servo.read("goal_position"))
            driven, sank = max(driven, count * went[0]), max(sank, count * went[1])
        print(driven, sank, flush=True)
        while robot.time < _LONGEST and not select.select([sys.stdin], [], [], 0)[0] and robot.step() != -1:
            pass


def moved(before: int, now: int, goal: int) -> tuple[int, int]:
    """How far a servo went to its goal when torque came on, and how far elsewhere, counts.

    No loop drives away from its goal: the load does, as far as a loop without integral gives way.
    """
    gone, asked = now - before, goal - before
    driven = min(abs(gone), abs(asked)) if gone * asked > 0 else 0
    return driven, abs(gone) - driven


if __name__ == "__main__":
    try:
        hold(Rig.load(sys.argv[1]), sys.argv[2], sys.argv[3].split(","))
    except AxBridgeError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
