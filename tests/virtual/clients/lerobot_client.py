"""LeRobot's own bus, Koch follower and Koch leader on served arms: python lerobot_client.py PORT LEADERS_PORT FOLDER.

Two parts of a calibration are done by hand: LeRobot asks for them on standard output, and waits for ENTER.
"""

import sys
import time
from pathlib import Path

from lerobot.motors import Motor, MotorNormMode
from lerobot.motors.dynamixel import DynamixelMotorsBus
from lerobot.robots.koch_follower import KochFollower, KochFollowerConfig
from lerobot.teleoperators.koch_leader import KochLeader, KochLeaderConfig

port, leaders_port, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
MODELS = {
    "shoulder_pan": (1, "xl430-w250"), "shoulder_lift": (2, "xl430-w250"), "elbow_flex": (3, "xl330-m288"),
    "wrist_flex": (4, "xl330-m288"), "wrist_roll": (5, "xl330-m288"), "gripper": (6, "xl330-m288"),
}  # fmt: skip

# The bus alone
bus = DynamixelMotorsBus(port, {name: Motor(*model, MotorNormMode.DEGREES) for name, model in MODELS.items()})
bus.connect()
assert bus.broadcast_ping() == {1: 1060, 2: 1060, 3: 1200, 4: 1200, 5: 1200, 6: 1200}
assert set(bus.sync_read("Present_Position", normalize=False)) == set(MODELS)
bus.disconnect()

# The follower: calibrated by hand, then moved
follower = KochFollower(KochFollowerConfig(port=port, id="follower", calibration_dir=folder))
follower.connect()
assert follower.is_connected
assert follower.is_calibrated
ranges = {name: (joint.range_min, joint.range_max) for name, joint in follower.calibration.items()}
for name in ("shoulder_lift", "elbow_flex", "wrist_flex", "gripper"):
    low, high = ranges[name]
    assert 1000 < high - low < 2600, (name, ranges[name])  # nearly from end to end
seen = follower.get_observation()
assert set(seen) == {f"{name}.pos" for name in MODELS}
goal = {**dict.fromkeys(seen, 20.0), "gripper.pos": 60.0}
end = time.monotonic() + 15
while max(abs(seen[name] - goal[name]) for name in seen) > 6:
    assert follower.send_action(goal) == goal
    seen = follower.get_observation()
    assert time.monotonic() < end, seen
follower.disconnect()
assert not follower.is_connected

# Calibrated from here on
again = KochFollower(KochFollowerConfig(port=port, id="follower", calibration_dir=folder))
again.connect()
assert again.calibration == follower.calibration
again.disconnect()

# The leader: without torque except for its trigger
(folder / "leader.json").write_bytes((folder / "follower.json").read_bytes())
leader = KochLeader(KochLeaderConfig(port=leaders_port, id="leader", calibration_dir=folder))
leader.connect()
assert set(leader.get_action()) == {f"{name}.pos" for name in MODELS}
assert set(leader.bus.sync_read("Torque_Enable", list(MODELS)[:5], normalize=False).values()) == {0}
leader.disconnect()

bus.connect()
assert set(bus.sync_read("Torque_Enable", normalize=False).values()) == {0}
bus.disconnect()
print("ok")
