"""A segment's log on its way: where it comes from, and what it holds."""
