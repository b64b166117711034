"""What makes recordings of robots: the recorder of a robot, and experiments."""
