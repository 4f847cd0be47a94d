"""Runs told to other trackers."""
