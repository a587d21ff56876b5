"""What a command prints: tables, records, progress."""
