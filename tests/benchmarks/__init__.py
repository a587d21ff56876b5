"""How fast tieredfs is, beside its peers and beside what the machine can do at all."""
