"""Decide which segment serves which offsets."""
