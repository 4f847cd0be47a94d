"""Attacks that a sandbox must withstand."""
