"""Fitted servos and robots for other programs."""
