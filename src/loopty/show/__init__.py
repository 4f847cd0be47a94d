"""What is shown: one answer per question."""
