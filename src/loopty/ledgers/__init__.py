"""Ledgers: stores of events."""
