"""A segment's log: fetched, split into batches, inspected, copied."""
