"""Everything that touches the world: settings, disk, network, clock, Dagster's definitions, the
command line.
"""
