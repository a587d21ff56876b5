"""How a test has a process that the mode of a file binds, run by root or not."""

# Linux's capset(2), version 3: root keeps its files, but reads none past its mode.
# Another user would not do: root's environment may lie where only root can read it.
GIVE_UP_PRIVILEGES = """
import ctypes, os
if os.geteuid() == 0:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
"""
