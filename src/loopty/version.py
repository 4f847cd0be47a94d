"""The version of loopty."""

__version__ = "0.1.0"
