"""Sharing results: bundles, pull requests and branches."""
