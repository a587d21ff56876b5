"""Convert the records of batches to and from Arrow."""
