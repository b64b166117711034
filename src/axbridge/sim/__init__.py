"""Servos on the joints of a world: banks, the engines, and rollouts of many models at once."""
