"""A Webots controller: waves the first motor of the robot, and stops after three seconds.

axbridge run examples/webots_wave.py --rig bench_arm
axbridge run examples/webots_wave.py --rig bench_arm --backend real --port /dev/ttyUSB0
"""

import math

from controller import Robot

robot = Robot()
timestep = int(robot.getBasicTimeStep())
motor = robot.getDeviceByIndex(0)
sensor = motor.getPositionSensor()
sensor.enable(timestep)
motor.setVelocity(4.0)

while robot.step(timestep) != -1 and robot.getTime() < 3.0:
    motor.setPosition(0.6 * math.sin(2 * math.pi * robot.getTime()))

print(f"{motor.getName()} ends at {sensor.getValue():.3f} rad after {robot.getTime():.2f} s")
