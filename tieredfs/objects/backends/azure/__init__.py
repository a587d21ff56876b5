"""Azure Blob Storage, flat or hierarchical, through adlfs."""
