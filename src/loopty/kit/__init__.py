"""Small tools of the standard library that the domain stands on; they know nothing of it."""
