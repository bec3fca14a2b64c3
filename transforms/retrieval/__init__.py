"""From a query to ranked, cited hits."""
