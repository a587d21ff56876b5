"""Large objects are uploaded in parts, and appear whole or not at all."""

import os
import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objects.small_parts import upload_in_parts
from objects.watched import Watched
from servers import ProxiedBucket
from tieredfs import (
    AlreadyExistsError,
    ClosedError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.objects.backends import Backend, MultipartConfig, Part
from tieredfs.objects.content import FileContent, opened
from tieredfs.objects.write.upload import plan_parts

MIB = 1 << 20
SIZE = 11 * MIB + 5
CONTENT = os.urandom(MIB) * 11 + b"short"


class TestPlan:
    LIMITS = MultipartConfig(part_size=5 * MIB, max_parts=10, concurrency=1)

    @given(st.integers(1, 1 << 40))
    def test_parts_cover_the_object_within_the_limits(self, size: int) -> None:
        parts = plan_parts(size, self.LIMITS)
        assert len(parts) <= 10
        assert parts[0].start == 0
        assert parts[-1].end == size
        for part, after in pairwise(parts):
            assert part.end == after.start
            assert len(part) == len(parts[0])
            assert len(part) % MIB == 0
            assert len(part) >= 5 * MIB
        assert 0 < len(parts[-1]) <= len(parts[0])

    def test_a_part_is_no_larger_than_it_has_to_be(self) -> None:
        assert len(plan_parts(50 * MIB, self.LIMITS)) == 10
        assert len(plan_parts(50 * MIB + 1, self.LIMITS)[0]) == 6 * MIB


on_s3 = pytest.mark.parametrize("proxied", ["s3"], indirect=True)
"""For tests that recognise parts by S3's requests, or need uploads with a begin."""


class Upload(Watched):
    """A store that uploads what is larger than 5 MiB in parts of 5 MiB."""

    def __init__(self, proxied: ProxiedBucket, **policy: Any) -> None:  # noqa: ANN401 - a policy's fields
        super().__init__(proxied, **policy)
        self.prove()
        backend: Backend = self.store._requests.backend("", "")
        assert backend.parts is not None
        most = min(3, backend.parts.concurrency)
        upload_in_parts(self.store, above=5 * MIB, part_size=5 * MIB, concurrency=most)
        self.clear()

    def unfinished(self) -> list[str]:
        """Return what uploads are there, of any age."""
        return list(self.store.abort_uploads(timedelta(hours=-1)))


@pytest.fixture
def upload(proxied: ProxiedBucket) -> Upload:
    return Upload(proxied)


@on_s3
def test_a_large_object_is_put_in_parts_in_parallel(upload: Upload) -> None:
    upload.store.put("a", CONTENT, overwrite=True)
    assert upload.events.by_verb() == {
        "begin_upload": 1,
        "put_part": 3,
        "finish_upload": 1,
    }
    assert upload.agree()
    assert upload.events.size == SIZE
    assert upload.store.get("a") == CONTENT
    assert upload.unfinished() == []


def test_an_object_at_the_limit_is_one_request(upload: Upload) -> None:
    upload.store.put("a", CONTENT[: 5 * MIB], overwrite=True)
    assert upload.events.by_verb() == {"put": 1}


def test_a_large_file_is_put_in_parts(upload: Upload, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    upload.store.put_file("a", source, overwrite=False)
    assert upload.events.by_verb()["put_part"] == 3
    assert upload.store.get("a") == CONTENT


def test_a_large_object_that_is_there_is_refused_before_it_is_sent(
    upload: Upload,
) -> None:
    upload.store.put("a", b"1", overwrite=False)
    upload.events.clear()
    with pytest.raises(AlreadyExistsError, match="a"):
        upload.store.put("a", CONTENT, overwrite=False)
    assert upload.events.by_verb() == {"head": 1}
    assert upload.store.get("a") == b"1"


def test_who_finishes_second_is_refused_and_leaves_nothing(upload: Upload) -> None:
    upload.proxy.add("HEAD", status=404, times=1)  # it was not there yet
    upload.store.put("a", b"1", overwrite=True)
    with pytest.raises(AlreadyExistsError, match="a"):
        upload.store.put("a", CONTENT, overwrite=False)
    assert upload.store.get("a") == b"1"
    assert upload.unfinished() == []


@on_s3
def test_a_part_that_fails_is_put_again_alone(upload: Upload) -> None:
    upload.proxy.add("PUT", "partNumber=2", status=503, times=2)
    upload.store.put("a", CONTENT, overwrite=True)
    assert upload.events.by_verb()["put_part"] == 5
    assert upload.agree()
    assert upload.store.get("a") == CONTENT


@on_s3
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_part_that_keeps_failing_leaves_nothing(
    upload: Upload, overwrite: bool
) -> None:
    upload.proxy.add("PUT", "partNumber=2", status=500)
    with pytest.raises(StorageUnavailableError, match="part 2"):
        upload.store.put("a", CONTENT, overwrite=overwrite)
    with pytest.raises(NotFoundError):
        upload.store.head("a")
    assert upload.unfinished() == []


@on_s3
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_end_whose_reply_is_lost_is_success(upload: Upload, overwrite: bool) -> None:
    upload.proxy.add("POST", "uploadId", lose_reply=True, times=1)
    upload.store.put("a", CONTENT, overwrite=overwrite)
    assert upload.store.get("a") == CONTENT
    assert upload.unfinished() == []


@on_s3
@pytest.mark.parametrize("fails", [False, True])
def test_an_upload_whose_begin_was_not_answered_is_taken_back(
    upload: Upload, fails: bool
) -> None:
    upload.proxy.add("POST", "uploads", lose_reply=True, times=2)
    upload.proxy.add("PUT", "partNumber=2", status=403, times=float(fails))
    if fails:
        with pytest.raises(PermissionDeniedError, match="part 2"):
            upload.store.put("a", CONTENT, overwrite=True)
    else:
        upload.store.put("a", CONTENT, overwrite=True)
        assert upload.store.get("a") == CONTENT
    assert upload.unfinished() == []


@on_s3
def test_uploads_of_other_writers_are_not_taken_for_one_that_was_not_answered(
    upload: Upload,
) -> None:
    backend = upload.store._requests.backend("", "")
    other = backend.begin_upload("a", 10, overwrite=True)
    backend.put_part("a", other, Part(1, 0, 1, 1), b"1", 10)
    backend.begin_upload("ab", 10, overwrite=True)
    upload.proxy.add("POST", "uploads", lose_reply=True, times=1)
    upload.store.put("a", CONTENT, overwrite=True)
    assert upload.unfinished() == ["a", "ab"]


@on_s3
def test_where_another_writer_has_begun_as_well_nothing_is_taken_back(
    upload: Upload,
) -> None:
    backend = upload.store._requests.backend("", "")
    other = backend.begin_upload("a", 10, overwrite=True)  # its first part is slow
    upload.proxy.add("POST", "uploads", lose_reply=True, times=1)
    upload.store.put("a", CONTENT, overwrite=True)
    assert upload.unfinished() == ["a", "a"]
    backend.abort_upload("a", other, 10)


@on_s3
def test_an_upload_that_another_writer_aborts_is_put_again_whole(
    upload: Upload,
) -> None:
    backend = upload.store._requests.backend("", "")
    finish = type(backend).finish_upload
    aborted: list[str] = []

    def aborts(
        self: object, key: str, number: str, *args: object, **kw: object
    ) -> None:
        if not aborted:
            aborted.append(number)
            backend.abort_upload(key, number, 10)
        finish(self, key, number, *args, **kw)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(backend), "finish_upload", aborts)
        upload.store.put("a", CONTENT, overwrite=True)
    assert upload.store.get("a") == CONTENT
    assert upload.events.by_verb()["put"] == 1
    assert upload.unfinished() == []


@on_s3
def test_a_file_that_shrinks_is_an_error_and_leaves_nothing(
    upload: Upload, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    rule = upload.proxy.add("POST", "uploads", delay=0.5)

    class Shrinks(list[object]):
        def on_request(self, event: object) -> None:
            del event
            os.truncate(source, 100)

    store = ObjectStore.__new__(ObjectStore)
    store.__setstate__(upload.store.__getstate__())
    store._requests.connection._made = upload.store._requests.backend("", "")
    object.__setattr__(store._requests, "observer", Shrinks())
    with pytest.raises(InvalidArgumentError, match="shorter"):
        store.put_file("a", source, overwrite=True)
    assert rule.hits == 1
    with pytest.raises(NotFoundError):
        store.head("a")
    assert upload.unfinished() == []


@on_s3
def test_an_upload_that_was_abandoned_is_cleaned_when_it_is_old(
    upload: Upload,
) -> None:
    backend = upload.store._requests.backend("", "")
    number = backend.begin_upload("left/behind", 10, overwrite=True)
    assert upload.store.abort_uploads() == []
    assert upload.unfinished() == ["left/behind"]
    assert upload.unfinished() == []
    backend.abort_upload("left/behind", number, 10)  # again is not an error


@on_s3
def test_an_upload_that_cannot_be_aborted_keeps_no_other_from_it(
    upload: Upload,
) -> None:
    backend = upload.store._requests.backend("", "")
    for key in ("a", "b", "c", "d"):
        backend.begin_upload(key, 10, overwrite=True)
    upload.proxy.add("DELETE", "/b[?]", status=403)
    upload.proxy.add("DELETE", "/c[?]", status=503)
    with pytest.raises(
        PermissionDeniedError, match="2 of 4 uploads were not"
    ) as caught:
        upload.unfinished()
    assert set(caught.value.keys) == {"b", "c"}
    upload.proxy.clear()
    assert upload.unfinished() == ["b", "c"]


@on_s3
def test_uploads_outside_the_store_are_left_alone(upload: Upload) -> None:
    backend = upload.store._requests.backend("", "")
    backend.begin_upload("inside/mine", 10, overwrite=True)
    other = ObjectStore(
        f"{upload.store.url}/in", upload.store._requests.connection.options
    )
    assert other.abort_uploads(timedelta(hours=-1)) == []
    assert upload.unfinished() == ["inside/mine"]


def test_only_a_regular_file_can_be_put(upload: Upload, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InvalidArgumentError, match=source.name):
            upload.store.put_file("a", source, overwrite=True)
    assert upload.events == []


def test_a_file_is_not_read_any_more_when_its_put_has_ended(tmp_path: Path) -> None:
    source, another = tmp_path / "source", tmp_path / "another"
    source.write_bytes(b"mine")
    another.write_bytes(b"them")
    with opened(source) as content:
        assert content.read(1, 3) == b"in"
    # The other file has the same number now.
    with another.open("rb"), pytest.raises(ClosedError, match="source"):
        content.read(1, 3)
    assert isinstance(content, FileContent)
    content.close()  # again


@on_s3
def test_no_part_is_under_way_when_an_upload_was_taken_back(upload: Upload) -> None:
    upload.proxy.add("PUT", "partNumber=1", status=403, delay=1.0)
    upload.proxy.add("PUT", "partNumber=[23]", delay=1.5)
    with pytest.raises(PermissionDeniedError, match="part 1"):
        upload.store.put("a", CONTENT, overwrite=True)
    assert upload.events[-1].verb == "abort_upload"
    begun = upload.proxy.requests("PUT", "partNumber")
    assert upload.events.by_verb()["put_part"] == len(begun) == 3
    assert upload.unfinished() == []


@on_s3
def test_when_a_part_fails_no_other_sleeps_on(upload: Upload) -> None:
    upload.proxy.add(
        "PUT", "partNumber=1", status=503, headers={"Retry-After": "30"}, times=1
    )
    upload.proxy.add("PUT", "partNumber=2", status=403, delay=0.5)
    begun = time.monotonic()
    with pytest.raises(PermissionDeniedError, match="part 2"):
        upload.store.put("a", CONTENT, overwrite=True)
    assert time.monotonic() - begun < 20
    assert len(upload.proxy.requests("PUT", "partNumber=1")) == 1
    assert upload.unfinished() == []


@on_s3
def test_when_a_part_fails_the_others_try_no_more(upload: Upload) -> None:
    upload.proxy.add("PUT", "partNumber=1", status=403, delay=0.3)
    upload.proxy.add("PUT", "partNumber=[23]", status=503, delay=0.2)
    patient = upload.store.with_policy(RequestPolicy(attempts=1000, backoff=0.01))
    with pytest.raises(PermissionDeniedError, match="part 1"):
        patient.put("a", CONTENT, overwrite=True)
    tried = {event.key: event.attempts for event in upload.events}
    assert max(tried.values()) < 20
