"""The records of batches, to and from Arrow."""
