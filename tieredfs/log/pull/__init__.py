"""Get the segments of a tier back as files."""
