"""Setting up a task in a repository, and the causes of failures."""
