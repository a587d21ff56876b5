"""How the records of a batch are compressed, and by which package."""
