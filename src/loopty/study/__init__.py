"""The Python API for functions: tune an objective, ask and tell, evolve a program. The loop is the same."""
