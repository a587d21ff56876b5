"""Writes that have one outcome: exclusive, verified, in parts; and deletions."""
