"""Restore the segments of a tier as files."""
