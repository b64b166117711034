"""rustypot on a served arm of Protocol 2.0: python rustypot_x.py PORT; ids 1 and 2 XL430-W250, 3 to 6 XL330-M288."""

import sys
import time

from rustypot import Xl330PyController

IDS = [3, 4, 5, 6]


def opened():
    return Xl330PyController(sys.argv[1], 1_000_000, 0.2)


first = opened()
try:
    opened()  # it opens the port exclusively
except Exception:  # noqa: BLE001 - its own kind
    first.close()
else:
    sys.exit("the port was opened twice")
controller = opened()  # and again after the first has closed it
assert controller.scan().keys() == {1, 2, *IDS}
assert set(controller.broadcast_scan()) == {1, 2, *IDS}
assert not controller.ping(9)
controller.sync_write_torque_enable(IDS, [True] * 4)
goals = [0.3, -0.3, 0.2, 0.2]
for fast in (False, True):
    controller.set_fast_sync_read(fast)
    controller.sync_write_goal_position(IDS, goals)
    time.sleep(1.5)
    there = controller.sync_read_present_position(IDS)
    assert all(abs(a - b) < 0.1 for a, b in zip(there, goals, strict=True)), (fast, there)
    goals = [-goal for goal in goals[:2]] + goals[2:]
# FF FF FD within data is stuffed on the line, in both directions: Homing Offset -131073
controller.sync_write_torque_enable(IDS, [False] * 4)
for offset in ([0xFF, 0xFF, 0xFD, 0xFF], [0, 0, 0, 0]):
    controller.write_raw_data(3, 20, offset)
    time.sleep(0.1)
    assert list(controller.read_raw_data(3, 20, 4)) == offset, offset
controller.close()
print("ok")
