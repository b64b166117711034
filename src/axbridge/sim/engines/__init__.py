"""Physics engines, and joints without one."""
