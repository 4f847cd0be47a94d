"""Coding agents: drivers, their work, their tools, and the programs that host them."""
