"""What a simulated humanoid costs: `robot.step` over the bare engine, interleaved in one process.

Prints JSON. `ratio` is the time of `robot.step` (controller, bus, registers, firmware, motors, coupling, physics) over
`stepSimulation` of the same robot standing on Bullet's position motors; the best of several short turns of each, so
that a busy machine disturbs it little. `--bus none` takes the bus' time out of the simulation, not out of the cost.
"""

import argparse
import json
import time

import pybullet

import axbridge
from axbridge.plant.bullet import BulletMechanics
from axbridge.rig import Rig

STEPS = 12  # control steps of 20 ms a turn


def bare_world(rig):
    """The rig's robot in its standing pose on Bullet's own position motors."""
    world = BulletMechanics(
        rig.urdf_path(),
        time_step=rig.world.time_step_ms / 1000,
        fixed_base=False,
        ground=True,
        base_height=rig.world.base_height,
        start={servo.joint: servo.position for servo in rig.servos},
    )
    on = {"physicsClientId": world.client}
    pybullet.setJointMotorControlArray(
        world.body,
        world.links,
        pybullet.POSITION_CONTROL,
        world.state()[0].tolist(),
        forces=[1.5] * len(world.links),
        **on,
    )
    return world, on


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=40)
    turns = options.parse_args().turns
    rig = Rig.load("bioloid")
    per_step = 20 / rig.world.time_step_ms
    world, on = bare_world(rig)
    bank, robots = [], []
    with axbridge.open("bioloid") as robot:
        for servo in rig.servos:
            robot[servo.name].set_position(servo.position)
        for _ in range(25):
            robot.step(20)
        for _ in range(200):
            pybullet.stepSimulation(**on)
        for _ in range(turns):
            start = time.perf_counter()
            for _ in range(round(STEPS * per_step)):
                pybullet.stepSimulation(**on)
            middle = time.perf_counter()
            for _ in range(STEPS):
                robot.step(20)
            end = time.perf_counter()
            bank.append((middle - start) / round(STEPS * per_step))
            robots.append((end - middle) / STEPS)
    bare, full = min(bank), min(robots)
    print(
        json.dumps(
            {
                "bare_step_us": round(bare * 1e6, 1),
                "robot_step_us": round(full * 1e6, 1),
                "robot_step_per_physics_step_us": round(full / per_step * 1e6, 1),
                "ratio": round(full / per_step / bare, 3),
                "times_real_time": round(0.020 / full, 2),
            },
            indent=2,
        )
    )
    world.close()


if __name__ == "__main__":
    main()
