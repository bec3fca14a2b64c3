"""The page in which people search and read the published index."""
