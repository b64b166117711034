"""Write, read, convert and import recordings."""
