"""Every verb as a typed function: what the command line, agents and Python callers share."""
