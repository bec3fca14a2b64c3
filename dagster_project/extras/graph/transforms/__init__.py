"""The document graph: classes of chunks, stripes, keywords, prompts, and its export."""
