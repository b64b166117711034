"""Recordings: made, kept, converted and imported."""
