"""MIME multipart bodies: an object with its metadata, and a batch of deletions.

gcsfs matches the answers to deletions by order, which Google does not promise, and
retries some of them on its own.
"""

import json
import re
from collections.abc import Mapping, Sequence
from email.parser import BytesParser
from email.policy import HTTP
from http import HTTPStatus
from typing import cast
from urllib.parse import quote

from tieredfs.objects.backends.gcs.errors_map import GCSError, failure

__all__ = ["answers", "deletions", "described"]

_NUMBER = re.compile(r"\+(\d+)>?$")
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})")
_GONE = frozenset({HTTPStatus.OK, HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND})


def described(
    about: Mapping[str, str], data: bytes, boundary: str
) -> tuple[bytes, bytes, bytes]:
    """Encode an object with its metadata.

    Args:
        about: The metadata, including the name.
        data: The content, which is not copied.
        boundary: Separates the parts; must occur in neither.
    """
    head = (
        f"--{boundary}\r\n"
        f"Content-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n"
        f"--{boundary}\r\n"
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode(), data, f"\r\n--{boundary}--\r\n".encode()


def deletions(bucket: str, names: Sequence[str], query: str, boundary: str) -> bytes:
    """Encode a batch of requests to delete objects.

    Args:
        bucket: The bucket of the objects.
        names: Their full names in the bucket.
        query: The encoded query of each request; may be empty.
        boundary: Separates the requests; must not occur in a name.
    """
    objects = f"/storage/v1/b/{quote(bucket, safe='')}/o"
    mark = query and "?"
    parts = [
        f"--{boundary}\r\n"
        "Content-Type: application/http\r\n"
        "Content-Transfer-Encoding: binary\r\n"
        f"Content-ID: <{boundary}+{number}>\r\n\r\n"
        f"DELETE {objects}/{quote(name, safe='')}{mark}{query} HTTP/1.1\r\n"
        "Content-Length: 0\r\n\r\n"
        for number, name in enumerate(names)
    ]
    return "\r\n".join([*parts, f"--{boundary}--\r\n"]).encode()


def answers(kind: str, content: bytes) -> dict[int, GCSError | None]:
    """Decode the answers to a batch of deletions.

    Args:
        kind: The Content-Type of the whole answer.
        content: The body.

    Returns:
        The error of each deletion, by the number of the request; None where the object
        is gone. A request without an answer is omitted.
    """
    whole = BytesParser(policy=HTTP).parsebytes(
        f"Content-Type: {kind}\r\n\r\n".encode() + content
    )
    found: dict[int, GCSError | None] = {}
    for part in whole.iter_parts():
        number = _NUMBER.search(str(part["Content-ID"]))
        payload = cast("bytes", part.get_payload(decode=True))
        head, _, body = payload.partition(b"\r\n\r\n")
        status = _STATUS.match(head)
        if number is None or status is None:
            continue
        code = int(status[1])
        error = None if code in _GONE else failure(code, {}, body)
        found[int(number[1])] = error
    return found
