"""Chunks of mails and attachments."""
