"""`loopty.toml`: reading it, finding every error in it at once, and describing it."""
