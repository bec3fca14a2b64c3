"""Mails and their attachments to chunks, by their blocks."""
