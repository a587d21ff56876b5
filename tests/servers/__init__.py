"""Real servers for tests: each a child process or a thread, on loopback only."""

from servers.azure import Azurite
from servers.broker import Broker
from servers.cloud import CloudServer
from servers.faults import Hold, Request, Rule
from servers.fleet import SERVICES, Fleet
from servers.gcs import FakeGCS
from servers.places import Bucket, ProxiedBucket, Service
from servers.process import NotInstalledError, Server
from servers.proxy import FaultProxy
from servers.ranges import RangeHTTP
from servers.relay import Relay
from servers.s3 import MotoS3, RcloneS3, SeaweedS3
from servers.sftp import OpenSshSftp, Sftp
from servers.webhdfs import WebHDFS

__all__ = [
    "SERVICES",
    "Azurite",
    "Broker",
    "Bucket",
    "CloudServer",
    "FakeGCS",
    "FaultProxy",
    "Fleet",
    "Hold",
    "MotoS3",
    "NotInstalledError",
    "OpenSshSftp",
    "ProxiedBucket",
    "RangeHTTP",
    "RcloneS3",
    "Relay",
    "Request",
    "Rule",
    "SeaweedS3",
    "Server",
    "Service",
    "Sftp",
    "WebHDFS",
]
