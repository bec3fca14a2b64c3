"""Conversations: from chat exports to windows, chunks and the queries a window asks."""
