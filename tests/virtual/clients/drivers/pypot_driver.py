"""pypot moves two AX-12A: python pypot_driver.py PORT"""

import sys
import time

from pypot.dynamixel import DxlIO

with DxlIO(sys.argv[1], baudrate=1_000_000) as io:
    io.enable_torque([1, 2])
    time.sleep(0.1)  # its next packet begins with a flush of this one, which nobody acknowledges
    io.set_goal_position({1: 20.0, 2: 20.0})
    time.sleep(0.1)
    end = time.monotonic() + 10
    for _ in range(10):
        io.get_present_position([1, 2])
        time.sleep(0.1)
    while min(io.get_present_position([1, 2])) < 18 and time.monotonic() < end:
        time.sleep(0.1)
    print(*(round(one) for one in io.get_present_position([1, 2])))
    io.disable_torque([1, 2])
    time.sleep(0.1)
