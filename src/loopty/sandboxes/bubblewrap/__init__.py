"""The sandbox of bubblewrap."""
