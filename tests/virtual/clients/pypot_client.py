"""pypot on its own: python pypot_client.py PORT"""

import sys
import time

from pypot.dynamixel import DxlIO

with DxlIO(sys.argv[1], baudrate=1_000_000) as io:
    ids = io.scan(range(1, 21))
    assert ids == list(range(1, 19)), ids
    assert set(io.get_model(ids)) == {"AX-12"}
    assert len(io.get_present_position(ids)) == 18
    table = io.get_control_table([1])[0]
    assert table["id"] == 1, table
    assert table["model"] == "AX-12", table
    goals = {id_: -20.0 + 2 * id_ for id_ in ids}
    io.set_goal_position(goals)
    time.sleep(1.5)
    for id_, goal in zip(ids, io.get_goal_position(ids), strict=True):
        assert abs(goal - goals[id_]) < 0.3, (id_, goal)
    assert abs(io.get_present_position([1])[0] - goals[1]) < 9
    io.set_moving_speed(dict.fromkeys(ids, 50))
    time.sleep(0.1)  # its next packet begins with a flush, which would discard this one; it has no reply
    assert all(abs(speed - 50) < 1 for speed in io.get_moving_speed(ids))
    io.change_id({5: 30})
    time.sleep(0.1)
    assert io.ping(30)
    io.change_id({30: 5})
    time.sleep(0.1)
    io.disable_torque(io.scan(range(1, 19)))
print("ok")
