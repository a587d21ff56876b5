"""Read the records of partitions, as planned."""
