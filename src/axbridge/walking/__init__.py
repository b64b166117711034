"""Walks: gaits, the zero-moment point, legs, feedback."""
