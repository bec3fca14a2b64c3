"""SQL that somebody writes, on the published file, on the lake, and of an assistant."""
