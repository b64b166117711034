"""What a robot is, as data: TOML in, frozen objects out; errors name file and key."""
