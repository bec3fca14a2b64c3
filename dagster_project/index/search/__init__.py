"""From a query to hits, texts and facts of a published version; nothing here writes one."""
