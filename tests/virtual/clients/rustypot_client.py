"""rustypot on its own: python rustypot_client.py PORT"""

import contextlib
import sys
import time

from rustypot import AxPyController


def first(value):
    return value[0] if isinstance(value, (list, tuple)) else value


controller = AxPyController(sys.argv[1], 1_000_000, 0.05)


def answers(id_):
    with contextlib.suppress(Exception):
        return bool(controller.ping(id_))
    return False


ids = [id_ for id_ in range(1, 21) if answers(id_)]
assert ids == list(range(1, 19)), ids
assert {first(controller.read_model_number(id_)) for id_ in ids} == {12}
assert len(controller.read_raw_data(1, 0, 50)) == 50
controller.write_goal_position(1, 0.3)
controller.sync_write_goal_position(ids[1:], [0.02 * id_ for id_ in ids[1:]])
time.sleep(1.5)
for id_ in ids:
    goal = 0.3 if id_ == 1 else 0.02 * id_
    taken = first(controller.read_goal_position(id_))
    assert abs(taken - goal) < 0.01, (id_, taken)
position = first(controller.read_present_position(1))
assert abs(position - 0.3) < 0.15, position
controller.write_id(5, 30)
time.sleep(0.02)
assert answers(30)
controller.write_id(30, 5)
print("ok")
