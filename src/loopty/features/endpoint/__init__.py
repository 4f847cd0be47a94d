"""The model endpoint that is served to benchmarks and agents."""
