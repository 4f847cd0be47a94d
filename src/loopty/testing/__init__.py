"""Suites for ledgers, proposers and sandboxes, and fakes: a new one passes with one fixture."""
