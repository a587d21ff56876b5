"""Write records as new segments at the end of a partition."""
