"""What happened: events, their fold, and the ledger that keeps them."""
