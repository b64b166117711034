"""Buses: register bytes to and from servos, over a serial port or in process."""
