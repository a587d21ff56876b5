"""Read a topic from its tier, and go on with what its brokers get."""
