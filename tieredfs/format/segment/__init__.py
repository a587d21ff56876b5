"""The object that a segment is in the native layout: its key and its tail."""
