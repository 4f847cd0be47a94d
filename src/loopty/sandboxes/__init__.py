"""Sandboxes for trials: bounded, without survivors, with no more rights than a trial needs."""
