"""What conditions of a query look at: text, and values of fields."""
