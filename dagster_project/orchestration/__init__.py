"""Jobs, schedules, sensors and builds: when which assets are materialized."""
