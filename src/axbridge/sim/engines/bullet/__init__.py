"""PyBullet as an engine, with the prediction that servo joints need."""
