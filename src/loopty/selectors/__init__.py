"""Selectors choose the node that the next proposal changes."""
