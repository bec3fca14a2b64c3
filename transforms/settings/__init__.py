"""Settings of the stages by subject: frozen models with the unit and the origin of each default."""
