"""Motors, friction and joints in numbers: no bytes, no clock."""
