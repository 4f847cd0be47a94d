"""The resident process: it has imported loopty once, and forks a process for each verb."""
