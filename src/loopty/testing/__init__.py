"""Conformance suites for each protocol, and fakes, shipped so that a new part passes with one fixture."""
