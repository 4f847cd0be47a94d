"""The prompts and replies of a model that chooses parameters."""
