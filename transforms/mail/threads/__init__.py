"""What lies between mails: references, threads, patch series, quotes without marks."""
