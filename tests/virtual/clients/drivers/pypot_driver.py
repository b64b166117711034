"""pypot moves two AX-12A: python pypot_driver.py PORT"""

import sys
import time

from pypot.dynamixel import DxlIO

with DxlIO(sys.argv[1], baudrate=1_000_000) as io:
    io.enable_torque([1, 2])
    io.set_goal_position({1: 20.0, 2: 20.0})
    for _ in range(25):
        position = io.get_present_position([1, 2])
        time.sleep(0.1)
    print(*(round(one) for one in position))
    io.disable_torque([1, 2])
