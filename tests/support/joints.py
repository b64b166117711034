"""Joints of an engine without servos."""

from axbridge.servo.columns import Passive
from axbridge.sim.bank import ServoBank


def left_alone(engine, seconds, spring=0.0):
    """Let an engine go on for so long; a spring (N·m/rad) may act on its joints."""
    bank = ServoBank(engine, [], [])
    bank.passive[:, Passive.SPRING] = spring
    bank.advance((round(seconds / engine.time_step) + 0.01) * engine.time_step)
