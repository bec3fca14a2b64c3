"""Engines that make partitions on other processes and machines."""
