"""History → rows: answers to questions about a run, as plain data."""
