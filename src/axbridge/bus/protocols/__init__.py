"""Packets of Dynamixel protocols: bytes alone."""
