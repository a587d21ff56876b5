"""Upload a large object in parts, several at a time; it appears when it is complete.

Which objects is ``multipart_threshold_bytes`` in ``tieredfs.options``; how large the
parts are is in ``backends/multipart``.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tieredfs.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.model import ByteRange
from tieredfs.objects.backends import (
    Backend,
    DisturbedUploadError,
    MultipartConfig,
    Part,
    UnfinishedUpload,
)
from tieredfs.objects.concurrency.parallel import run_all
from tieredfs.objects.content import Content
from tieredfs.objects.errors_map import is_ambiguous
from tieredfs.objects.policy import CommonDeadline, Deadline
from tieredfs.objects.rate_limit import limited_attempts
from tieredfs.objects.request import Call, Requests
from tieredfs.objects.write.delete import raise_failures
from tieredfs.objects.write.verified import write_verified

__all__ = ["abandon_all", "abort_all", "plan_parts", "upload"]

_MIB = 1 << 20
_CLEANUP_SHARE = 0.05
"""Extra share of a deadline for cleaning up an upload after the deadline has passed."""
_INTERRUPTED_CLEANUP_SECONDS = 0.5
"""Maximum seconds of the clean-up after Ctrl-C, which is to end the process."""


def plan_parts(size: int, limits: MultipartConfig) -> list[ByteRange]:
    """Split ``size`` bytes into parts of one size that the limits allow.

    Args:
        size: Total bytes, above 0.
        limits: The minimum part size, in bytes, and the maximum number of parts.

    Returns:
        The parts in order; only the last may be smaller. Sizes are whole MiB.
    """
    needed = -(-size // limits.max_parts)
    part = -(-max(limits.part_size, needed) // _MIB) * _MIB
    return [ByteRange(start, min(start + part, size)) for start in range(0, size, part)]


def upload(
    requests: Requests,
    key: str,
    content: Content,
    limits: MultipartConfig,
    deadline: Deadline,
    *,
    overwrite: bool,
) -> None:
    """Write a large object as a whole, in parts.

    Afterwards the object is complete, or nothing remains: a failed upload is aborted,
    and so is one that the store began without the answer arriving. After a crash the
    parts stay, invisible, until ``abort_uploads``. If another writer of the object
    removes its parts, it is put again in one request.

    Raises:
        AlreadyExistsError: The object exists, and ``overwrite`` is false.
        StorageUnavailableError: Another writer removed the parts, and the object is too
            large for one request.
        TieredFSError: A part could not be uploaded.
    """
    if not overwrite:
        _refuse_if_there(requests, key, deadline)

    unanswered: list[Deadline] = []
    running = requests.connection.uploads
    if limits.has_begin:
        number, unanswered = _begin(requests, key, deadline, overwrite=overwrite)
        running.add(UnfinishedUpload(key, number))
    else:
        number = secrets.token_hex(8)
    try:
        try:
            tags = _put_parts(requests, key, number, content, limits, deadline)
        finally:
            if unanswered and limits.has_listing:
                _abort_unanswered(requests, key, number, unanswered)
        deadline = requests.renewed(deadline)

        def finish(backend: Backend, left: float) -> None:
            backend.finish_upload(key, number, tags, left, overwrite=overwrite)

        write_verified(requests, Call("finish_upload", key, finish), content, deadline)
    except DisturbedUploadError as error:
        if content.size > limits.max_single_put:
            msg = f"put {requests.name(key)}: another write removed its parts"
            raise StorageUnavailableError(msg) from error

        def put(backend: Backend, left: float) -> None:
            backend.put(key, content, left, overwrite=overwrite)

        moved = content.size
        write_verified(
            requests, Call("put", key, put, lambda _: moved), content, deadline
        )
    except BaseException as error:
        if limits.has_begin:
            _abort_failed(requests, key, number, error)
        raise
    finally:
        running.discard(UnfinishedUpload(key, number))


def abandon_all(requests: Requests) -> None:
    """Abort the uploads of all threads of this process, in half a second at most.

    Their calls end with an error, or with the process.
    """
    running = tuple(requests.connection.uploads)
    if running:
        with suppress(TieredFSError):
            abort_all(requests, running, Deadline(_INTERRUPTED_CLEANUP_SECONDS))


def abort_all(
    requests: Requests, uploads: Sequence[UnfinishedUpload], deadline: Deadline
) -> None:
    """Abort uploads; each is tried, even when others fail.

    Raises:
        TieredFSError: Some uploads may remain; the error's ``keys`` lists them.
    """

    def abort(each: UnfinishedUpload) -> TieredFSError | None:
        try:
            _abort(requests, each.key, each.upload, deadline)
        except TieredFSError as error:
            error.keys = (each.key,)
            return error
        return None

    backend = requests.backend("abort_upload", "", deadline)
    errors = run_all(
        [partial(abort, each) for each in uploads],
        concurrency=requests.concurrency(backend),
    )
    raise_failures(errors, len(uploads), "uploads were not aborted")


def _begin(
    requests: Requests, key: str, deadline: Deadline, *, overwrite: bool
) -> tuple[str, list[Deadline]]:
    """Begin an upload.

    Returns:
        The store's identifier of the upload, and the start of each attempt that may
        have begun another one, oldest first.
    """
    unanswered: list[Deadline] = []

    def begin(backend: Backend, left: float) -> str:
        begun = Deadline(left)
        try:
            return backend.begin_upload(key, left, overwrite=overwrite)
        except Exception as error:
            if is_ambiguous(error):
                unanswered.append(begun)
            raise

    number = requests.make(Call("begin_upload", key, begin), deadline)
    return number, unanswered


def _abort_unanswered(
    requests: Requests, key: str, number: str, unanswered: Sequence[Deadline]
) -> None:
    """Abort the uploads begun by attempts whose answer was lost.

    They are distinguished from those of other writers by their time, and by having no
    part when this upload has all of its parts. If more are found than there were
    attempts, some are another writer's, and none is aborted.
    """
    end = Deadline(requests.policy.deadline * _CLEANUP_SHARE)

    def find(backend: Backend, left: float) -> Sequence[str]:
        return backend.begun_before(key, number, unanswered[0].elapsed, left)

    with suppress(TieredFSError):
        found = requests.make(Call("list_uploads", key, find), end)
        for each in found if len(found) <= len(unanswered) else ():
            _abort(requests, key, each, end)


def _refuse_if_there(requests: Requests, key: str, deadline: Deadline) -> None:
    """Refuse before gigabytes are sent; the end of the upload decides who is first."""
    with suppress(NotFoundError):
        requests.make(
            Call("head", key, lambda backend, left: backend.head(key, left)), deadline
        )
        msg = f"put {requests.name(key)}: the object already exists"
        raise AlreadyExistsError(msg)


def _put_parts(
    requests: Requests,
    key: str,
    number: str,
    content: Content,
    limits: MultipartConfig,
    deadline: Deadline,
) -> list[str]:
    """Upload all parts, and return the store's tags of them.

    When one fails, the others neither retry nor sleep, and none is in progress
    afterwards: a part that arrived after the abort would keep the upload. Only after
    Ctrl-C may some be in progress, because they may hang.
    """
    end = CommonDeadline(deadline.remaining)

    def put(at: int, span: ByteRange, tried: Callable[[], object]) -> Call[str]:
        part = Part(at, span.start, span.end, content.size)

        def attempt(backend: Backend, left: float) -> str:
            tried()
            data = content.read(part.start, part.end)
            return backend.put_part(key, number, part, data, left)

        return Call("put_part", key, attempt, lambda _: len(span), f" part {at}")

    spans = plan_parts(content.size, limits)

    def make(at: int, span: ByteRange) -> str:
        tried = limited_attempts(requests.rate_limit, len(span))
        return requests.make(put(at, span, tried), requests.renewed(end))

    tasks = [partial(make, at, span) for at, span in enumerate(spans, start=1)]
    return run_all(tasks, concurrency=limits.concurrency, stop=end.expire)


def _abort_failed(
    requests: Requests, key: str, number: str, error: BaseException
) -> None:
    """Abort a failed upload; parts that cannot be removed are invisible anyway."""
    seconds = requests.policy.deadline * _CLEANUP_SHARE
    if not isinstance(error, Exception):
        seconds = min(seconds, _INTERRUPTED_CLEANUP_SECONDS)
    with suppress(TieredFSError):
        _abort(requests, key, number, Deadline(seconds))


def _abort(requests: Requests, key: str, number: str, deadline: Deadline) -> None:
    def abort(backend: Backend, left: float) -> None:
        backend.abort_upload(key, number, left)

    requests.make(Call("abort_upload", key, abort), deadline)
