"""The indexes of a segment: each of them, and whether they match the log."""
