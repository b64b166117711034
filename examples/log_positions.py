"""Log the positions of all servos at 50 Hz into a numpy array, while they move.

$ python examples/log_positions.py
$ AXBRIDGE_BACKEND=real AXBRIDGE_PORT=/dev/ttyUSB0 python examples/log_positions.py
"""

import numpy as np

import axbridge

rows = []
with axbridge.open("pan_tilt") as robot:
    robot.set_positions([0.6, -0.3])  # rad, in the rig's order
    for _ in range(50):
        robot.step(20)  # ms
        rows.append([robot.time, *robot.positions])

log = np.array(rows)  # (50, 3): s, then rad a servo
np.savetxt("positions.csv", log, delimiter=",", header=",".join(["time", *robot]), fmt="%.4f")
print(f"{len(log)} rows; the last: {log[-1].round(3)}")
