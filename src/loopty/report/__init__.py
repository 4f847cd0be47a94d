"""Rows → text for the terminal."""
