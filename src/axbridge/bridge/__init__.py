"""Any program on one side, the servos of a line on the other: packets pass through rules that protect the robot."""
