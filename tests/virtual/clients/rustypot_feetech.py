"""rustypot on Feetech servos: python rustypot_feetech.py PORT"""

import sys
import time

from rustypot import Sts3215PyController

IDS = [1, 2, 3]
controller = Sts3215PyController(sys.argv[1], 1_000_000, 0.2)
assert controller.scan() == dict.fromkeys(IDS, 777)
assert controller.broadcast_scan() == dict.fromkeys(IDS, 777)
assert not controller.ping(9)
controller.sync_write_torque_enable(IDS, [True] * 3)
goals = [0.3, -0.2, 0.1]
controller.sync_write_goal_position(IDS, goals)
time.sleep(1.0)
there = controller.sync_read_present_position(IDS)
assert all(abs(a - b) < 0.03 for a, b in zip(there, goals, strict=True)), there
assert set(controller.sync_read_present_voltage(IDS)) <= set(range(70, 78))  # 0.1 V
assert controller.sync_read_moving(IDS) is not None
assert abs(controller.sync_read_present_load(IDS)[0]) < 0.2
controller.write_lock(1, False)
controller.write_p_coefficient(1, 16)
controller.write_lock(1, True)
assert controller.sync_read_p_coefficient(IDS) == [16, 32, 32]
controller.write_goal_velocity(2, 0.5)
assert abs(controller.sync_read_goal_velocity(IDS)[1] - 0.5) < 0.01
controller.reboot(3)
time.sleep(0.8)
assert controller.sync_read_torque_enable(IDS) == [True, True, False]
controller.sync_write_torque_enable(IDS, [False] * 3)
print("ok")
