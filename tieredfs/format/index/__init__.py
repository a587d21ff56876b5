"""The indexes of a segment: parse, look up, build, and check against the log."""
