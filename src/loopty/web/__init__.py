"""The dashboard's server."""
