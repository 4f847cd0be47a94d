"""Small tools on top of the standard library. They know nothing of the domain."""
