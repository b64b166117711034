"""Recordings: written, kept, converted and imported."""
