"""The verifier's work: screening proposals, reviewing winners, comparing the artifacts of nodes."""
