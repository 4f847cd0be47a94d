"""Serves the user role's model to a trial: metered, capped, cached, and the only server that it can reach."""
