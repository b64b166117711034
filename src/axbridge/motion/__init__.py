"""Command a robot over time: moves (files, planning, playing, teaching, least energy), experiments and walking."""
