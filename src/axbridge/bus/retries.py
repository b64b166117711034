"""Numbers of repetitions. A line loses packets by noise, a bad contact or a busy computer.

The guard process has its own numbers (`axbridge.robot.safety.guard`), because it imports nothing of this package.
"""

QUESTION = 2  # repetitions of a ping, read or write; more would delay a control cycle with a missing servo
SUPPORT = 2  # attempts of a group read before the servo counts as not supporting it
CONFIRMED = 5  # attempts outside the control cycle of what must be confirmed, above all torque off
RESTORE = 3  # attempts to restore a servo's mode and limits in EEPROM, each of which may wear it
