"""Drives: a Dynamixel on a bus, or an ideal joint motor of the simulator."""
