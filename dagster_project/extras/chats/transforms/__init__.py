"""Exports of further chat programs to chats, one module for each program."""
