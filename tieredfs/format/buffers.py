"""Any buffer as a read-only view of bytes."""

__all__ = ["Buffer", "byte_view"]

Buffer = bytes | bytearray | memoryview
"""What a parser accepts: anything that exposes contiguous bytes."""


def byte_view(data: Buffer) -> memoryview:
    """Return ``data`` as a flat, read-only view of bytes, without a copy."""
    return memoryview(data).cast("B").toreadonly()
