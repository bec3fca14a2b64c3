"""Pure functions from tables to tables: no Dagster, no network, no clock, no disk."""
