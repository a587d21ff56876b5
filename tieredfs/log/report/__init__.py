"""Report which offsets of a topic its segments cover, and what serves them."""
