"""A published index in a collection of Qdrant: what is sent there, and how it is asked."""
