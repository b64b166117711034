"""The virtual servo, byte for byte and in time, and the line that it is on."""
