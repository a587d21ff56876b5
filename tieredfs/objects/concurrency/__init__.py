"""Threads, locks and timeouts for the requests of a store."""
