"""PyBullet as an engine, and what it needs to move joints as a servo does."""
