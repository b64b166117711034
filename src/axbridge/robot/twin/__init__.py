"""Real servos beside simulated ones with the same commands: what they do differently has a cause, and a name."""
