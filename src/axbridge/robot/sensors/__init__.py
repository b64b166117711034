"""What a robot senses with beside its servos: simulated, or real ones of their own."""
