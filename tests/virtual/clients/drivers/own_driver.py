"""axbridge moves a Koch arm: python own_driver.py PORT"""

import sys

import axbridge

with axbridge.open("koch", "real", port=sys.argv[1]) as robot:
    names = list(robot)[:2]
    for name in names:
        robot[name].torque_on()
        robot[name].set_position(0.23)
    while robot.time < 1.5 and robot.step(20) != -1:
        pass
    print(*(round(robot[name].position, 2) for name in names))
