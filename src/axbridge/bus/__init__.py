"""Buses: transfer register bytes to and from servos, in packets of all protocols, by serial port or in process."""
