"""The composition root: definitions, jobs, schedules, resources and the command line."""
