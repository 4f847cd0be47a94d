"""Workers on other machines: clusters, workers of hosts, the pool."""
