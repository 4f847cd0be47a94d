"""What every verb stands on: the context, the reader, set-up of trials, drafts, verdicts, tickets and trust."""
