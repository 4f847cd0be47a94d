"""Coding agents: how each is started without a terminal, and what its output says. Nothing here runs anything."""
