"""Local disks."""
