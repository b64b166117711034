"""A drop-in for Webots' Python controller module."""
