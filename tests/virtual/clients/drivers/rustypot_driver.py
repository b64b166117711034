"""rustypot moves an SO-101: python rustypot_driver.py PORT"""

import sys
import time

from rustypot import Sts3215PyController

controller = Sts3215PyController(sys.argv[1], 1_000_000, 0.1)
controller.sync_write_torque_enable([1, 2], [True, True])
controller.sync_write_goal_position([1, 2], [0.3, 0.3])
for _ in range(10):
    position = controller.sync_read_present_position([1, 2])
    time.sleep(0.1)
print(*(round(one, 2) for one in position))
controller.sync_write_torque_enable([1, 2], [False, False])
