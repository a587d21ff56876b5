"""S3 and what speaks its protocol, through s3fs.

Traps closed here, seen with s3fs 2026.9: two retry loops of its own around botocore's,
125 tries and 327 s against a server that hangs, so all three are turned down to one
attempt; a whole read costs HEAD and GET; public fsspec lists everything at once and
cannot begin after a key, so the client underneath is asked; a folder marker is listed
as an object of no bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from fsspec import AbstractFileSystem

from tieredfs.objects.quirks.default import Backend, ObjectInfo

__all__ = ["S3Backend"]


class S3Backend(Backend):
    """A bucket, or a prefix in one."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Leave retries to the store."""
        super().__init__(filesystem, root)
        # An attribute only: no constructor argument reaches it.
        filesystem.retries = 1
        config = dict(filesystem.config_kwargs)
        config["retries"] = {"total_max_attempts": 1}
        filesystem.config_kwargs = config
        self.bucket, _, prefix = self.root.partition("/")
        self._lead = f"{prefix}/" if prefix else ""

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole object in one request."""
        return cast("bytes", self.run_async(self._get_object, timeout, key))

    async def _get_object(self, key: str) -> bytes:
        answer = await self.filesystem._call_s3(  # noqa: SLF001 - no public paging
            "get_object", Bucket=self.bucket, Key=self._lead + key
        )
        async with answer["Body"] as body:
            return cast("bytes", await body.read())

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of an object in one request."""
        answer = self._call("head_object", timeout, Key=self._lead + key)
        return ObjectInfo(
            key, int(answer["ContentLength"]), str(answer["ETag"]).strip('"')
        )

    def pages(
        self, prefix: str, start_after: str, delimiter: str, timeout: float
    ) -> Iterator[Sequence[ObjectInfo]]:
        """List a thousand keys a request, beginning after ``start_after``."""
        request: dict[str, object] = {"Prefix": self._lead + prefix}
        if delimiter:
            request["Delimiter"] = delimiter
        if start_after:
            request["StartAfter"] = self._lead + start_after
        while True:
            answer = self._call("list_objects_v2", timeout, **request)
            yield sorted(self._listed(answer), key=lambda entry: entry.key)
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def delete(self, keys: Sequence[str], timeout: float) -> None:
        """Delete objects one by one; S3 answers the same for a missing one."""
        for key in keys:
            self._call("delete_object", timeout, Key=self._lead + key)

    def _listed(self, answer: dict[str, Any]) -> Iterator[ObjectInfo]:
        cut = len(self._lead)
        for item in answer.get("Contents") or ():
            key = str(item["Key"])[cut:]
            if key and not key.endswith("/"):
                etag = str(item.get("ETag", "")).strip('"')
                yield ObjectInfo(key, int(item["Size"]), etag)
        for item in answer.get("CommonPrefixes") or ():
            yield ObjectInfo(str(item["Prefix"])[cut:], None)

    def _call(
        self, operation: str, timeout: float, **parameters: object
    ) -> dict[str, Any]:
        return cast(
            "dict[str, Any]",
            self.run_async(
                self.filesystem._call_s3,  # noqa: SLF001 - no public paging
                timeout,
                operation,
                Bucket=self.bucket,
                **parameters,
            ),
        )
