"""What a model over parameters is told and what it answers."""
