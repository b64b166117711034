"""LeRobot's own bus, SO-101 follower and leader on served arms: python lerobot_so101.py PORT LEADERS_PORT FOLDER.

ENTER on standard input accepts the calibration files that it writes.
"""

import json
import sys
import time
from pathlib import Path

from lerobot.motors import Motor, MotorNormMode
from lerobot.motors.feetech import FeetechMotorsBus
from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig
from lerobot.teleoperators.so_leader import SO101Leader, SO101LeaderConfig

port, leaders_port, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
NAMES = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
KEYS = {f"{name}.pos" for name in NAMES}
LOW, HIGH = 1200, 3000

# The bus alone
bus = FeetechMotorsBus(port, {name: Motor(n, "sts3215", MotorNormMode.DEGREES) for n, name in enumerate(NAMES, 1)})
bus.connect()
assert bus.broadcast_ping() == dict.fromkeys(range(1, 7), 777)
positions = bus.sync_read("Present_Position", normalize=False)
assert set(positions) == set(NAMES)
bus.write("Lock", "gripper", 0)
bus.write("Homing_Offset", "gripper", -700, normalize=False)
assert bus.read("Homing_Offset", "gripper", normalize=False) == -700
assert bus.read("Present_Position", "gripper", normalize=False) == (positions["gripper"] + 700) % 4096
assert bus.set_half_turn_homings(["gripper"])["gripper"] == positions["gripper"] - 2047
assert abs(bus.read("Present_Position", "gripper", normalize=False) - 2047) <= 1
assert bus.sync_read("Present_Load", normalize=False).keys() == set(NAMES)
bus.disconnect()

# The follower: calibrated by a file, then moved
for id_ in ("follower", "leader"):
    one = {"drive_mode": 0, "homing_offset": 0, "range_min": LOW, "range_max": HIGH}
    (folder / f"{id_}.json").write_text(json.dumps({name: {"id": n, **one} for n, name in enumerate(NAMES, 1)}))
follower = SO101Follower(SO101FollowerConfig(port=port, id="follower", calibration_dir=folder))
follower.connect()
assert follower.is_calibrated
seen = follower.get_observation()
assert set(seen) == KEYS
goal = {**dict.fromkeys(seen, 20.0), "gripper.pos": 60.0}
end = time.monotonic() + 15
while max(abs(seen[name] - goal[name]) for name in seen) > 3:
    assert follower.send_action(goal) == goal
    seen = follower.get_observation()
    assert time.monotonic() < end, seen
assert follower.bus.read("Max_Torque_Limit", "gripper") == 500

# The leader without torque leads the follower
leader = SO101Leader(SO101LeaderConfig(port=leaders_port, id="leader", calibration_dir=folder))
leader.connect()
assert set(leader.bus.sync_read("Torque_Enable", normalize=False).values()) == {0}
for _ in range(60):
    action = leader.get_action()
    assert set(action) == KEYS
    follower.send_action(action)
    seen = follower.get_observation()
    time.sleep(0.02)
assert max(abs(seen[name] - action[name]) for name in seen) < 3, (seen, action)
leader.disconnect()
follower.disconnect()

# Calibrated from here on, without torque
again = SO101Follower(SO101FollowerConfig(port=port, id="follower", calibration_dir=folder))
again.connect()
assert again.calibration == follower.calibration
again.disconnect()
bus.connect()
assert set(bus.sync_read("Torque_Enable", normalize=False).values()) == {0}
bus.disconnect()
print("ok")
