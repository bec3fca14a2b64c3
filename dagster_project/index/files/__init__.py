"""Arrays beside the published file that search reads."""
