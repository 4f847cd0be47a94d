"""A language model changes the code of a node."""
