"""Which trials are not worth finishing."""
