"""Notices that are sent when something happens."""
