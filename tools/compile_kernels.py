"""Fill numba's cache with the kernels of world and rollouts, on one core while the linters use the other.

Without it the first test that needs a kernel compiles it, as on a user's machine: this saves nothing but time.
"""

from pathlib import Path

import axbridge
from axbridge.config.rig import Rig
from axbridge.jit import COMPILED
from axbridge.record.import_logs import import_log
from axbridge.replay.simulate import simulate

LOG = Path(__file__).parents[1] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"
PLAY = {"motor": {"armature": 0.004, "backlash": 0.01}}


def main() -> None:
    """Use each once."""
    with axbridge.open("bioloid") as robot:
        robot.step()
    rig = Rig.load("xl330_pendulum")
    simulate(import_log(LOG), rig)
    (servo,) = rig.servos
    simulate(import_log(LOG), rig.model_copy(update={"servos": (servo.model_copy(update={"params": PLAY}),)}))


if __name__ == "__main__" and COMPILED:
    main()
