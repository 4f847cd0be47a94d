"""What several machines share: the ledger in PostgreSQL, and stores."""
