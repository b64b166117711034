"""Step a servo from 0 to 90 degrees and print its curve: the same script on the simulator and on the bus.

python examples/step_response.py --backend sim
python examples/step_response.py --backend real --port /dev/ttyUSB0
"""

from __future__ import annotations

import argparse
import math

import axbridge


def main() -> None:
    """Settle at 0, step, print, and report where the servo ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="bench_arm", help="rig name or file")
    parser.add_argument("--backend", default="sim", choices=["sim", "real"])
    parser.add_argument("--port", help="serial device of the real bus; default: the only adapter there is")
    options = parser.parse_args()

    with axbridge.open(options.rig, backend=options.backend, port=options.port) as robot:
        servo = next(iter(robot.values()))
        servo.set_position(0.0)
        while robot.time < 1.0 and robot.step(20) != -1:
            pass
        begin = robot.time
        servo.set_position(math.pi / 2)
        while robot.time < begin + 1.0 and robot.step(20) != -1:
            state = servo.state
            print(f"{state.time - begin:6.3f} s  {math.degrees(state.position):7.2f} deg  duty {state.load:+5.2f}")
        print(f"final position {math.degrees(servo.position):.2f} deg")


if __name__ == "__main__":
    main()
