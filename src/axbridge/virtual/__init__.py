"""The virtual servo with its packets and timing, and the line that it is on."""
