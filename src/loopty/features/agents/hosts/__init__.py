"""Agent hosts: the programs in which people work with a coding agent, and what loopty adds to their settings."""
