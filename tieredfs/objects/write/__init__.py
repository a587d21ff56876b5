"""Writes with a definite outcome: exclusive, verified, multipart; and deletions."""
