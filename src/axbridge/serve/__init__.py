"""The virtual bus for other programs: pseudo-terminals and TCP ports, in real time."""
