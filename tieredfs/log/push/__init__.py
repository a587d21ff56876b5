"""Copy the segments of a broker's log to a store, each segment once."""
