"""The sandbox of containers."""
