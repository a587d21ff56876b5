"""Threads, locks and timeouts, as the requests of a store need them."""
