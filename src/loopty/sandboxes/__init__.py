"""Where trials run: bounded, without survivors, and with no more rights than they need."""
