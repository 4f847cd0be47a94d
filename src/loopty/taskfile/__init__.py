"""Reads `loopty.toml`, reports every fault in it at once, and documents its keys."""
