"""axbridge moves a Koch arm: python own_driver.py PORT"""

import sys

import axbridge

with axbridge.open("koch", "real", port=sys.argv[1]) as robot:
    names = list(robot)[:2]
    for name in names:
        robot[name].torque_on()
        robot[name].set_position(0.23)
    while robot.time < 3.0 and robot.step(20) != -1:
        pass
    if wrong := [*robot.last_step.errors.values(), *(robot[name].errors for name in names if robot[name].errors)]:
        sys.exit(f"{wrong[0]}")
    print(*(round(robot[name].position, 1) for name in names))
