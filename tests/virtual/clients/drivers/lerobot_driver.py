"""LeRobot's bus moves an SO-101: python lerobot_driver.py PORT"""

import sys
import time

from lerobot.motors import Motor, MotorNormMode
from lerobot.motors.feetech import FeetechMotorsBus

bus = FeetechMotorsBus(sys.argv[1], {f"m{n}": Motor(n, "sts3215", MotorNormMode.DEGREES) for n in (1, 2)})
bus.connect()
bus.enable_torque()
bus.sync_write("Goal_Position", dict.fromkeys(bus.motors, 2200), normalize=False)
for _ in range(10):
    position = bus.sync_read("Present_Position", normalize=False)
    time.sleep(0.1)
print(*position.values())
bus.disconnect()
