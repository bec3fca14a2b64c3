"""How the pipeline fares: figures, readiness, checks before a publish."""
