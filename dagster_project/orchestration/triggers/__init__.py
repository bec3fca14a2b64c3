"""What asks Dagster for runs, or hears of them: the schedule, sensors, and what they ask for."""
