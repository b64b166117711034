"""A bridge between any program and a line of servos: rules on each packet protect the robot."""
