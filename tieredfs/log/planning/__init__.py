"""Which segment serves which offsets."""
