"""Trajectories, gaits and energy."""
