"""Numbers of repetitions of instructions. A line loses packets by noise, a bad contact or a busy computer.

The guard process has its own numbers (`axbridge.robot.safety.guard`), because it does not import this package.
"""

QUESTION = 2  # repetitions of a ping, a read or a write; more would delay a control cycle with a missing servo
SUPPORT = 2  # attempts of a group read before the servo counts as one without that instruction
CONFIRMED = 5  # attempts of writes that must be confirmed, such as torque off; no cycle waits for them
RESTORE = 3  # attempts to restore a servo's own mode and limits in EEPROM; each may wear the EEPROM
