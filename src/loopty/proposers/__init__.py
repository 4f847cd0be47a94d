"""Proposers suggest the next change."""
