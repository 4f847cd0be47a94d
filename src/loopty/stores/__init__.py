"""Shared stores: where drivers on several machines find each other's files."""
