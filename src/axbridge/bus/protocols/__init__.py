"""Packets of Dynamixel and Feetech protocols, without I/O."""
