"""A servo in numbers: its parameters' row, position laws, motor, friction, and their algebra."""
