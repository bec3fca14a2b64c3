"""What servers share, and the server for assistants (MCP); web pages are an extra."""
