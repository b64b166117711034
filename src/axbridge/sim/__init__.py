"""Servos on the joints of a world: the bank, the engines, and rollouts of many models at once."""
