"""Fakes, and suites that a new ledger, proposer, role model or sandbox passes with one fixture."""
