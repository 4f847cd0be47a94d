"""Executors run trials."""
