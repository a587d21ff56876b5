"""Verify that a tier is whole."""
