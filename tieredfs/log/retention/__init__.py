"""Delete the segments of a log that have expired, and whole partitions."""
