"""Pruners stop trials that are not worth finishing."""
