"""Floor 6: the ``tieredfs`` command. One verb, one module."""

from tieredfs.cli.app import main

__all__ = ["main"]
