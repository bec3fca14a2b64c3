"""What leaves Weft: texts screened for secrets, and receipts of what was shown."""
