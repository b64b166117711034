"""Control arithmetic without I/O: what Webots controllers expect of a motor, its sensors and its battery."""
