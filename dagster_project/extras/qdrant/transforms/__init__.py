"""What the vectors of a collection are made of: numbers for terms, and weights that a product sums up."""
