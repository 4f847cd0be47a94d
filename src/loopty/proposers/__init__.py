"""Proposers: who suggests the next change."""
