"""A program that holds motors until it is ended: `axbridge verify` ends it by a signal, and looks what the motors do.

Usage: ``python -m axbridge.verify.holder RIG PORT NAME,NAME``; PORT may be empty. Prints how far a servo moved when its
torque came on, rad, and holds until its standard input ends, which it does when the one who has started it is dead.
"""

from __future__ import annotations

import select
import sys

from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError
from axbridge.robot.open import open_robot
from axbridge.verify.calm import SHARE, calm

__all__ = ["hold"]

_SETTLES = 0.3  # s
_LONGEST = 20.0  # s: nobody has to end it


def hold(rig: str, port: str, names: list[str]) -> None:
    """Switch these servos on where they are, at little torque, and hold.

    Raises:
        AxBridgeError: the robot cannot be opened or held.
    """
    with open_robot(calm(Rig.load(rig)), "real", port=port or None) as robot:
        before = {name: robot[name].position for name in names}
        for name in names:
            robot[name].set_available_torque(SHARE * robot[name].max_torque)
            robot[name].torque_on()
        while robot.time < _SETTLES:
            robot.step()
        print(max(abs(robot[name].position - before[name]) for name in names), flush=True)
        while robot.time < _LONGEST and not select.select([sys.stdin], [], [], 0)[0] and robot.step() != -1:
            pass


if __name__ == "__main__":
    try:
        hold(sys.argv[1], sys.argv[2], sys.argv[3].split(","))
    except AxBridgeError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
