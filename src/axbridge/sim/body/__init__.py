"""Rigid bodies: kinematics, inverse dynamics and soles."""
