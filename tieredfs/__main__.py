"""``python -m tieredfs`` is the ``tieredfs`` command."""

from tieredfs.cli import main

main()
