"""Attacks on the sandbox: scripts that try to break out, and an arena that shows whether one did."""
