"""Nouns and pure statistics: what every other room talks about."""
