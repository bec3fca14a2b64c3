"""The common parts of servers, and the server for assistants (MCP); web pages are an extra."""
