"""The settings file: the models that it is read into, and its sources."""
