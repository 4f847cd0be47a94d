"""Commands that start as copies of a warm process."""
