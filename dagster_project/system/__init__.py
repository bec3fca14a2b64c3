"""The machine: disk, locks, processes, limits, optional packages."""
