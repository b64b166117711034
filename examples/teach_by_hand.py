"""Teach by hand: the arm is lifted and goes limp; lead it for two seconds. Then it repeats what you did.

In the simulator nobody leads it: it falls, and repeats its fall.

$ python examples/teach_by_hand.py
$ AXBRIDGE_BACKEND=real AXBRIDGE_PORT=/dev/ttyUSB0 python examples/teach_by_hand.py
"""

import axbridge

with axbridge.open("bench_arm") as robot:
    robot["shoulder"].goto(1.0, duration=1.0)  # rad, s
    print("take the arm: it is limp now")
    move = axbridge.teach(robot, seconds=2.0).move
    move.save("taught.json")  # `axbridge play taught.json --rig bench_arm` plays it again
    axbridge.play(robot, move)

print(f"repeated {move.duration:.1f} s; the arm ends at {robot['shoulder'].position:.2f} rad")
