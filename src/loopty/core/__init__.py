"""The domain: what an experiment is and how the loop decides. Standard library only, no I/O."""
