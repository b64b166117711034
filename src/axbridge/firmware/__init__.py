"""The virtual servo: control table, firmware loop and motor, and the line it hangs on."""
