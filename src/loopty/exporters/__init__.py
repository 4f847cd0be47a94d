"""Trials for other programs: tables, MLflow, Weights & Biases, OpenTelemetry."""
