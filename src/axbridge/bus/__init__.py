"""Buses: register bytes to and from servos, in packets of either protocol, over a serial port or in process."""
