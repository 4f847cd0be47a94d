"""Which node the next change is made to."""
