"""What costs time, compiled; and which implementation is in use."""
