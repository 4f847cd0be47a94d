"""Attacks on the sandbox: scripts that try to get out, and a place that shows whether one did."""
