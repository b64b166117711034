"""The virtual servo, byte for byte and in time, and the line it hangs on."""
