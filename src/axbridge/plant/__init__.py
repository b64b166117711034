"""What moves: motor, friction, joints, and the PyBullet world."""
