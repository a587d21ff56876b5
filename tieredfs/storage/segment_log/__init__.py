"""A segment's log while it is copied: its source and its contents."""
