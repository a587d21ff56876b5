"""Real servers for tests: each a child process or a thread, on loopback only."""

from servers.broker import Broker
from servers.faults import FaultProxy, Request, Rule
from servers.process import NotInstalledError, Server
from servers.s3 import Bucket, ProxiedBucket, SeaweedS3

__all__ = [
    "Broker",
    "Bucket",
    "FaultProxy",
    "NotInstalledError",
    "ProxiedBucket",
    "Request",
    "Rule",
    "SeaweedS3",
    "Server",
]
