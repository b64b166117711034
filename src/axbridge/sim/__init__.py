"""Simulation: banks of servos, physics engines, and rollouts of many models at once."""
