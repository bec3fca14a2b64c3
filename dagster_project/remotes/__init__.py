"""What fetches sources from the network."""
