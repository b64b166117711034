"""A servo in numbers: its parameters' row, position laws, motor, friction, their algebra, rules of its set-points."""
