"""The compiled kernel for the hot loops, and the choice of implementation."""
