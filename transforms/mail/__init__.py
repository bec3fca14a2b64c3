"""Mail: from the bytes of an archive to messages and attachments; blocks, chunks and threads below."""
