"""Builders of a robot's buses, clock and world: real, sim, twin."""
