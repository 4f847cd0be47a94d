"""Which node is the parent of the next proposal."""
