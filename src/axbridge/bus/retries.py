"""How often a question to a servo is repeated. A line loses packets: by noise, a bad contact or a busy computer.

The guard process has its own numbers (`axbridge.robot.safety.guard`), because it imports nothing of this package.
"""

QUESTION = 2  # repetitions of a ping, a read or a write; more would delay a control cycle in which a servo is gone
SUPPORT = 2  # attempts of a group read, before its servo counts as one without that instruction
CONFIRMED = 5  # attempts of what must be confirmed, torque off above all: no cycle waits for it
RESTORE = 3  # attempts to restore a servo's own mode and limits in EEPROM, each of which may wear it
