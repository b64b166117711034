"""Wave: swing a servo to and fro for two seconds.

$ python examples/wave.py
$ AXBRIDGE_BACKEND=real AXBRIDGE_PORT=/dev/ttyUSB0 python examples/wave.py
"""

import math

import axbridge

with axbridge.open("bench_arm") as robot:
    arm = robot["shoulder"]
    while robot.time < 2.0 and robot.step(20) != -1:  # ms
        arm.set_position(0.5 * math.sin(2 * math.pi * robot.time))  # rad; acts in the next step

print(f"the arm ends at {arm.position:.2f} rad")
