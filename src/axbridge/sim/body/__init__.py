"""Rigid bodies: kinematics, inverse dynamics, soles, and how joints carry what is on them."""
