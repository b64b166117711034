"""What moves the joints of a world: physics engines, and joints without one."""
