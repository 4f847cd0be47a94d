"""Autonomous experimentation loops for code."""

__version__ = "0.1.0"
