"""The user role's model, served to a trial: metered, capped, cached, and the only thing that it can reach."""
