"""Documents to chunks: one module for each chunker, and the table that they fill."""
