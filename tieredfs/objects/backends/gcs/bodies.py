"""Bodies of several parts: an object with its name, and many deletions in one request.

gcsfs reads the answers to deletions by their order, which nobody promises, and repeats
some of them on its own.
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
    """Encode an object with what is to be known of it.

    Args:
        about: Its name, and more.
        data: Its content, which is not copied.
        boundary: Between them; in neither.
    """
    head = (
        f"--{boundary}\r\n"
        f"Content-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n"
        f"--{boundary}\r\n"
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode(), data, f"\r\n--{boundary}--\r\n".encode()


def deletions(bucket: str, names: Sequence[str], query: str, boundary: str) -> bytes:
    """Encode requests to delete objects.

    Args:
        bucket: Where they are.
        names: Their whole names.
        query: Of each request, encoded; may be empty.
        boundary: Between them; in no name.
    """
    place = f"/storage/v1/b/{quote(bucket, safe='')}/o"
    mark = query and "?"
    parts = [
        f"--{boundary}\r\n"
        "Content-Type: application/http\r\n"
        "Content-Transfer-Encoding: binary\r\n"
        f"Content-ID: <{boundary}+{number}>\r\n\r\n"
        f"DELETE {place}/{quote(name, safe='')}{mark}{query} HTTP/1.1\r\n"
        "Content-Length: 0\r\n\r\n"
        for number, name in enumerate(names)
    ]
    return "\r\n".join([*parts, f"--{boundary}--\r\n"]).encode()


def answers(kind: str, content: bytes) -> dict[int, GCSError | None]:
    """Decode the answers to such requests.

    Args:
        kind: The Content-Type of all of it.
        content: The body.

    Returns:
        Why each object was not deleted, by the number of the request; None where it is
        not there any more. A request without an answer is left out.
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
