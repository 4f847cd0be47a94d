"""Evaluators score trials."""
