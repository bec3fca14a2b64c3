"""Servers that programs and assistants ask."""
