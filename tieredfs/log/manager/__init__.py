"""RemoteLogManager: keep the logs of a broker tiered, and let them expire (KIP-405)."""
