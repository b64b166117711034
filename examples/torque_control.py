"""Torque control: the arm becomes a spring that pulls it to 0.5 rad.

An AX-12 has no current sensor. axbridge turns the torque into a duty by the model of its motor, and says so.

$ python examples/torque_control.py
$ AXBRIDGE_BACKEND=real AXBRIDGE_PORT=/dev/ttyUSB0 python examples/torque_control.py
"""

import axbridge

STIFFNESS, DAMPING = 1.0, 0.05  # N·m/rad, N·m·s/rad

with axbridge.open("bench_arm") as robot:
    arm = robot["shoulder"]
    while robot.time < 2.0 and robot.step(10) != -1:  # ms: the shorter, the stiffer a spring can be
        arm.set_torque(STIFFNESS * (0.5 - arm.position) - DAMPING * arm.velocity)

print(f"the spring holds the arm at {arm.position:.2f} rad with {arm.torque:+.3f} N·m")
