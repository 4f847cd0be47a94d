"""Features: each imports what is below, and no other feature."""
