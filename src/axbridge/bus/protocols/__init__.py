"""Packets of Dynamixel protocols: bytes, without I/O."""
