"""The published index: written from the lake (`publish`), stored (`files`) and searched (`search`)."""
