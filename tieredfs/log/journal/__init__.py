"""What a manager has done with a partition, kept in the store beside its segments."""
