"""What touches the world: files, databases, models."""
