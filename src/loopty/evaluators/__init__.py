"""How a trial is scored."""
