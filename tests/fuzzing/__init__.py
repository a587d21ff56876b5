"""Hostile bytes: millions of mutated inputs for every parser, each with its judge.

An input follows from the name of its target and a number, and from nothing else. What
comes out of a parser is compared with a model: the same format, read field by field by
code that shares nothing with tieredfs.
"""
