"""What the verifier is asked: to screen proposals, to review winners, to compare what nodes left."""
