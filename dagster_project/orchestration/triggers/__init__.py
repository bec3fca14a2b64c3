"""The schedule and sensors, which ask Dagster for runs or hear of them, and their requests."""
