"""Robots, servo models and profiles as data: TOML files become frozen objects; errors name file and key."""
