"""Virtual servos with exact packets and timing, and their line."""
