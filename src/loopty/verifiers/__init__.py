"""The verifier's work: reviewing winners, comparing the artifacts of nodes."""
