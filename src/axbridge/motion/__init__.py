"""Moves as data: files, planning, playing, teaching, ways of least energy."""
