"""Azure: what its client hides, and what only Azure says."""

import asyncio
import gc
import gzip
import logging
import pickle
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.blob import (
    ContainerSasPermissions,
    ContentSettings,
    StandardBlobTier,
    generate_container_sas,
)

from objects.small_parts import upload_in_parts
from objects.watched import Watched
from servers import ProxiedBucket
from support.deadlines import assert_all_end_by
from tieredfs import (
    AlreadyExistsError,
    CorruptObjectError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects import StoreCapability
from tieredfs.objects.backends.azure.backend import AzureBackend
from tieredfs.objects.backends.listing import Listing

MIB = 1 << 20

pytestmark = pytest.mark.parametrize("proxied", ["azure"], indirect=True)

VERBS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("some/key"),
    "get_range": lambda store: store.get_range("some/key", 0, 10),
    "put": lambda store: store.put("some/key", b"1", overwrite=True),
    "create": lambda store: store.put("some/key", b"1", overwrite=False),
    "head": lambda store: store.head("some/key"),
    "list": lambda store: list(store.list("some/")),
    "copy": lambda store: store.copy("some/key", "other"),
    "delete": lambda store: store.delete(["some/key"]),
}


class Azure(Watched):
    """A store on Azurite behind a proxy, and the client underneath."""

    def __init__(self, proxied: ProxiedBucket) -> None:
        super().__init__(proxied, attempts=3)
        self.url, self.options = proxied.url, proxied.storage_options
        self.backend = self.store._requests.backend("", "")
        assert isinstance(self.backend, AzureBackend)
        self.container = self.backend._container
        self.prefix = self.backend._prefix

    def open(self, **options: object) -> ObjectStore:
        """Return another store of the place, with these options besides."""
        policy = RequestPolicy(attempts=3, backoff=0.001)
        chosen = self.options | options
        return ObjectStore(self.url, chosen, policy=policy, observer=self.events)

    def run(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - whatever the client returns
        """Call the client."""
        return self.backend.run_async(function, 10, *args, **options)

    def blob(self, key: str) -> Any:  # noqa: ANN401 - the client's
        """Return the client of an object."""
        return self.container.get_blob_client(self.prefix + key)

    def seen(self) -> list[str]:
        """Return the methods of what went over the wire, and forget it."""
        assert self.agree() == len(self.proxy.log)
        methods = [request.method for request in self.proxy.log]
        self.clear()
        return methods


@pytest.fixture
def azure(proxied: ProxiedBucket) -> Azure:
    return Azure(proxied)


def secrets_of(azure: Azure) -> list[str]:
    """Return the secrets of the connection."""
    fields = azure.options["connection_string"].split(";")
    return [field.partition("=")[2] for field in fields if "AccountKey" in field]


def everything(error: Exception, store: ObjectStore) -> str:
    """Return all text that a failure shows."""
    return "\n".join(
        [
            str(error),
            repr(error),
            repr(store),
            "".join(traceback.format_exception(error)),
            pickle.dumps(error).decode("latin1"),
        ]
    )


class TestOneRequest:
    """The client makes several of some calls; the store makes one of each."""

    def test_a_range_is_one_however_large(self, azure: Azure) -> None:
        content = bytes(MIB) * 40 + b"end"
        azure.store.put("a", content, overwrite=True)
        assert azure.seen() == ["PUT"]
        assert azure.store.get_range("a", 1, len(content)) == content[1:]
        assert azure.seen() == ["GET"]
        assert azure.store.get("a") == content
        assert azure.seen() == ["GET"]

    def test_an_empty_object_is_one(self, azure: Azure) -> None:
        azure.store.put("a", b"", overwrite=False)
        assert azure.store.get("a") == b""
        assert azure.store.head("a").size == 0
        assert azure.seen() == ["PUT", "GET", "HEAD"]

    def test_a_range_of_an_empty_object_is_one(self, azure: Azure) -> None:
        azure.store.put("a", b"", overwrite=False)
        with pytest.raises(CorruptObjectError):
            azure.store.get_range("a", 0, 1)
        assert azure.seen() == ["PUT", "GET"]

    def test_every_failure_is_attempted_as_often_as_the_policy_allows(
        self, azure: Azure
    ) -> None:
        azure.store.put("some/key", bytes(100), overwrite=True)
        azure.seen()
        for faults in (
            {"cut_before": True},
            {"cut_after": 5},
            {"cut_after": 5, "reset": True},
            {"lose_reply": True},
            {"status": 500},
            {"status": 429},
        ):
            azure.proxy.add("GET", **faults)
            for verb in ("get", "get_range", "list"):
                with pytest.raises(StorageUnavailableError):
                    VERBS[verb](azure.store)
            assert azure.seen() == ["GET"] * 9

    def test_a_copy_is_one(self, azure: Azure) -> None:
        azure.store.put("a é+%20#?", b"1", overwrite=True)
        azure.store.copy("a é+%20#?", "b'\"*[c]")
        assert azure.seen() == ["PUT", "PUT"]
        assert azure.store.get("b'\"*[c]") == b"1"

    def test_a_body_is_returned_as_stored(self, azure: Azure) -> None:
        packed = gzip.compress(b"text" * 100)
        settings = ContentSettings(content_encoding="gzip")
        azure.run(azure.blob("a").upload_blob, packed, content_settings=settings)
        assert azure.store.get("a") == packed
        assert azure.store.get_range("a", 0, len(packed)) == packed

    def test_the_environment_determines_the_proxy(
        self, azure: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        azure.store.put("a", b"1", overwrite=True)
        azure.seen()
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert azure.open().get("a") == b"1"
        monkeypatch.setenv("no_proxy", "elsewhere")
        with pytest.raises(StorageUnavailableError, match=":9"):
            azure.open().get("a")
        assert azure.store.get("a") == b"1"


def said(code: str) -> dict[str, Any]:
    """Return the fault of an answer that Azure calls so."""
    return {
        "body": f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>",
        "headers": {"x-ms-error-code": code, "Content-Type": "application/xml"},
    }


class TestParts:
    CONTENT = bytes(range(256)) * 4096 * 3 + b"short"

    @pytest.fixture
    def parts(self, azure: Azure) -> Azure:
        """The store, with parts of a MiB."""
        upload_in_parts(azure.store, above=MIB, part_size=MIB)
        vars(azure.backend)["max_buffered_bytes"] = MIB  # for this test
        return azure

    def test_an_object_is_put_in_parts_and_a_list_of_them(self, parts: Azure) -> None:
        parts.store.put("a", self.CONTENT, overwrite=True)
        assert parts.events.by_verb() == {"put_part": 4, "finish_upload": 1}
        assert parts.seen() == ["PUT"] * 5
        assert parts.store.get("a") == self.CONTENT

    def test_a_part_that_fails_is_put_again_alone(self, parts: Azure) -> None:
        parts.proxy.add("PUT", "comp=block&", status=503, times=2)
        parts.store.put("a", self.CONTENT, overwrite=True)
        assert parts.events.by_verb() == {"put_part": 6, "finish_upload": 1}
        assert len(parts.seen()) == 7
        assert parts.store.get("a") == self.CONTENT

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_a_part_that_keeps_failing_leaves_nothing_visible(
        self, parts: Azure, overwrite: bool
    ) -> None:
        parts.proxy.add("PUT", "comp=block&", status=500, skip=2)
        with pytest.raises(StorageUnavailableError, match="part"):
            parts.store.put("a", self.CONTENT, overwrite=overwrite)
        with pytest.raises(NotFoundError):
            parts.store.head("a")
        assert list(parts.store.list()) == []
        assert parts.store.abort_uploads(timedelta(hours=-1)) == []

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_an_end_whose_reply_is_lost_is_success(
        self, parts: Azure, overwrite: bool
    ) -> None:
        parts.proxy.add("PUT", "comp=blocklist", lose_reply=True, times=1)
        parts.store.put("a", self.CONTENT, overwrite=overwrite)
        assert parts.store.get("a") == self.CONTENT

    def test_exactly_one_of_many_creators_wins(self, parts: Azure) -> None:
        def create(number: int) -> int | None:
            content = bytes([number]) * (2 * MIB)
            try:
                parts.store.put("a", content, overwrite=False)
            except AlreadyExistsError:
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            won = [
                number for number in pool.map(create, range(8)) if number is not None
            ]
        assert len(won) == 1
        assert parts.store.get("a") == bytes(won) * (2 * MIB)

    def disturb(
        self, parts: Azure, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]
    ) -> None:
        """Let another writer act once, when all blocks of an upload are there."""
        finish = parts.backend.finish_upload
        acts = [act]

        def finish_after(*args: Any, **options: Any) -> None:  # noqa: ANN401 - of the verb
            if acts:
                acts.pop()()
            finish(*args, **options)

        monkeypatch.setattr(parts.backend, "finish_upload", finish_after)

    def rival(self, parts: Azure) -> ObjectStore:
        """Return a store that puts one object in blocks whatever its size."""
        store = parts.open()
        upload_in_parts(store, above=1, part_size=MIB)
        return store

    def test_overwrites_that_race_all_succeed(
        self, parts: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rival = self.rival(parts)
        self.disturb(
            parts, monkeypatch, lambda: rival.put("a", b"rival", overwrite=True)
        )
        parts.store.put("a", self.CONTENT, overwrite=True)
        assert parts.store.get("a") == self.CONTENT

    def test_a_file_whose_blocks_are_taken_away_is_put_whole(
        self, parts: Azure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        path = tmp_path / "0.log"
        path.write_bytes(self.CONTENT)
        rival = self.rival(parts)
        self.disturb(
            parts, monkeypatch, lambda: rival.put("a", b"rival", overwrite=True)
        )
        parts.store.put_file("a", path, overwrite=True)
        assert parts.store.get("a") == self.CONTENT
        assert parts.events.by_verb()["put"] == 1

    def test_a_file_that_becomes_shorter_while_it_is_put_whole_is_named(
        self, parts: Azure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        path = tmp_path / "0.log"
        path.write_bytes(self.CONTENT)
        rival = self.rival(parts)

        def shorten() -> None:
            rival.put("a", b"rival", overwrite=True)
            path.write_bytes(self.CONTENT[:MIB])

        self.disturb(parts, monkeypatch, shorten)
        with pytest.raises(InvalidArgumentError, match=r"0\.log has become shorter"):
            parts.store.put_file("a", path, overwrite=True)
        assert parts.store.get("a") == b"rival"

    def test_a_create_loses_to_an_object_that_is_there_at_its_end(
        self, parts: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rival = self.rival(parts)
        self.disturb(
            parts, monkeypatch, lambda: rival.put("a", b"rival", overwrite=False)
        )
        with pytest.raises(AlreadyExistsError):
            parts.store.put("a", self.CONTENT, overwrite=False)
        assert parts.store.get("a") == b"rival"

    def test_a_create_does_not_lose_to_an_object_that_is_gone(
        self, parts: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rival = self.rival(parts)

        def come_and_go() -> None:
            rival.put("a", b"rival", overwrite=True)
            rival.delete(["a"])

        self.disturb(parts, monkeypatch, come_and_go)
        parts.store.put("a", self.CONTENT, overwrite=False)
        assert parts.store.get("a") == self.CONTENT

    def test_blocks_that_another_tool_left_behind_do_not_matter(
        self, parts: Azure
    ) -> None:
        parts.run(parts.blob("a").stage_block, "x" * 40, b"left")
        parts.store.put("a", self.CONTENT, overwrite=True)
        assert parts.store.get("a") == self.CONTENT

    @pytest.mark.parametrize("code", ["InvalidBlockList", "BlockCountExceedsLimit"])
    def test_what_is_too_large_for_one_request_may_be_tried_again(
        self, parts: Azure, code: str
    ) -> None:
        upload_in_parts(parts.store, above=MIB, max_single_put=2 * MIB)
        parts.proxy.add("PUT", "comp=block", status=400, **said(code))
        with pytest.raises(StorageUnavailableError, match="removed its parts"):
            parts.store.put("a", self.CONTENT, overwrite=True)
        parts.store.put("a", self.CONTENT[: 2 * MIB], overwrite=True)
        assert parts.store.get("a") == self.CONTENT[: 2 * MIB]


class TestFolders:
    """Tools and hierarchical accounts keep objects that stand for folders."""

    @pytest.fixture
    def folders(self, azure: Azure) -> Azure:
        for key, mark in (
            ("folder", {"hdi_isfolder": "true"}),
            ("mine", {"is_directory": "true"}),
            ("odd", {"Hdi_isFolder": "True"}),
            ("slash/", {}),
        ):
            azure.run(azure.blob(key).upload_blob, b"", metadata=mark)
        azure.store.put("folder/a", b"1", overwrite=True)
        azure.run(
            azure.blob("file").upload_blob, b"", metadata={"is_directory": "false"}
        )
        return azure

    def test_they_are_not_listed(self, folders: Azure) -> None:
        assert [e.key for e in folders.store.list()] == ["file", "folder/a"]
        listed = [e.key for e in folders.store.list(delimiter="/")]
        assert listed == ["file", "folder/", "slash/"]

    def test_they_are_not_objects(self, folders: Azure) -> None:
        for key in ("folder", "mine", "odd"):
            for read in (
                folders.store.head,
                folders.store.get,
                lambda key: folders.store.get_range(key, 0, 1),
            ):
                with pytest.raises(NotFoundError):
                    read(key)
        assert folders.store.head("file").size == 0
        assert folders.store.get("file") == b""

    def test_a_range_of_one_is_not_found_where_the_server_looks_at_it_first(
        self, folders: Azure
    ) -> None:
        # As Microsoft documents it; Azurite gives no bytes.
        folders.proxy.add("GET", status=416, **said("InvalidRange"))
        with pytest.raises(NotFoundError):
            folders.store.get_range("folder", 0, 1)
        with pytest.raises(CorruptObjectError):
            folders.store.get_range("file", 0, 1)

    def test_one_with_something_in_it_is_not_deleted_as_an_object(
        self, folders: Azure
    ) -> None:
        # What hierarchical accounts say, which Azurite has none of.
        folders.proxy.add("DELETE", status=409, **said("DirectoryIsNotEmpty"))
        folders.store.delete(["folder"])


class TestListing:
    @pytest.mark.parametrize(
        ("prefix", "after", "begin"),
        [
            ("", "", None),
            ("", "a/b", "a/b"),
            ("", "00001-x/y", "00001"),
            ("a-b/", "a-b/0001.log", "a-b/0001"),
            ("a-b/", "a-b/-c", None),
            ("b/", "a", None),
            ("b/", "c", None),
        ],
    )
    def test_a_listing_starts_at_a_key_in_any_order_of_folders(
        self, azure: Azure, prefix: str, after: str, begin: str | None
    ) -> None:
        listing = Listing(prefix, after, "")
        azure.backend.page(listing, None, 10)
        (request,) = azure.proxy.requests()
        assert ("startFrom=" in request.target) == (begin is not None)
        found = azure.backend._begin(listing)  # type: ignore[attr-defined]
        assert found == (None if begin is None else azure.prefix + begin)

    def test_a_folded_listing_begins_at_the_beginning(self, azure: Azure) -> None:
        for key in ("a/1", "b/1", "c"):
            azure.store.put(key, b"1", overwrite=True)
        azure.seen()
        listed = list(azure.store.list(start_after="a/", delimiter="/"))
        assert [entry.key for entry in listed] == ["b/", "c"]
        assert "startFrom" not in azure.proxy.log[0].target

    def test_head_and_listing_give_the_same_version(self, azure: Azure) -> None:
        azure.store.put("a", b"1", overwrite=True)
        (listed,) = azure.store.list()
        assert listed == azure.store.head("a")
        azure.store.put("a", b"2", overwrite=True)
        assert azure.store.head("a").version != listed.version


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "code", "ours"),
        [
            (400, "InvalidResourceName", InvalidArgumentError),
            (400, "InvalidUri", InvalidArgumentError),
            (400, "OutOfRangeInput", InvalidArgumentError),
            (400, "InvalidAuthenticationInfo", PermissionDeniedError),
            (401, "NoAuthenticationInformation", PermissionDeniedError),
            (403, "AuthenticationFailed", PermissionDeniedError),
            (403, "AuthorizationPermissionMismatch", PermissionDeniedError),
            (403, "AccountIsDisabled", PermissionDeniedError),
            (404, "BlobNotFound", NotFoundError),
            (404, "ContainerNotFound", NotFoundError),
            (409, "BlobAlreadyExists", AlreadyExistsError),
            (409, "BlobArchived", UnsupportedOperationError),
            (409, "BlobBeingRehydrated", UnsupportedOperationError),
            (409, "BlobImmutableDueToPolicy", PermissionDeniedError),
            (409, "ContainerBeingDeleted", StorageUnavailableError),
            (409, "LeaseAlreadyPresent", StorageUnavailableError),
            (409, "PendingCopyOperation", StorageUnavailableError),
            (409, "SnapshotsPresent", UnsupportedOperationError),
            (412, "ConditionNotMet", AlreadyExistsError),
            (412, "LeaseIdMissing", StorageUnavailableError),
            (416, "InvalidRange", CorruptObjectError),
            (429, "TooManyRequests", StorageUnavailableError),
            (500, "InternalError", StorageUnavailableError),
            (500, "OperationTimedOut", StorageUnavailableError),
            (503, "ServerBusy", StorageUnavailableError),
        ],
    )
    def test_an_answer_is_mapped_to_an_error_of_ours(
        self, azure: Azure, status: int, code: str, ours: type[TieredFSError]
    ) -> None:
        azure.proxy.add(status=status, headers={"x-ms-error-code": code})
        for verb in ("get_range", "put", "head", "list", "copy", "delete"):
            if (verb, code) == ("delete", "BlobNotFound"):
                continue
            with pytest.raises(TieredFSError) as caught:
                VERBS[verb](azure.store)
            assert (verb, type(caught.value)) == (verb, ours)
            if ours is not NotFoundError:
                assert caught.value.__cause__ is not None

    def test_a_missing_container_is_not_found(self, azure: Azure) -> None:
        url = f"abfs://{uuid.uuid4().hex}/x"
        store = ObjectStore(url, azure.options)
        for verb in VERBS.values():
            with pytest.raises(NotFoundError, match=url):
                verb(store)

    def test_an_invalid_container_name_is_an_error_of_ours(self, azure: Azure) -> None:
        store = ObjectStore("abfs://A_B/x", azure.options)
        for verb in VERBS.values():
            with pytest.raises((InvalidArgumentError, NotFoundError)):
                verb(store)

    def test_an_object_with_a_lease_cannot_be_replaced_for_now(
        self, azure: Azure
    ) -> None:
        azure.store.put("some/key", b"1", overwrite=True)
        azure.run(azure.blob("some/key").acquire_lease, lease_duration=15)
        for verb in ("put", "delete"):
            with pytest.raises(StorageUnavailableError, match="lease"):
                VERBS[verb](azure.store)
        with pytest.raises(AlreadyExistsError):
            VERBS["create"](azure.store)

    def test_an_object_with_snapshots_is_not_deleted(self, azure: Azure) -> None:
        azure.store.put("some/key", b"1", overwrite=True)
        azure.run(azure.blob("some/key").create_snapshot)
        with pytest.raises(UnsupportedOperationError, match="napshot"):
            azure.store.delete(["some/key"])
        assert azure.store.get("some/key") == b"1"

    def test_an_archived_object_cannot_be_read(self, azure: Azure) -> None:
        azure.store.put("some/key", bytes(10), overwrite=True)
        tier = StandardBlobTier.ARCHIVE
        azure.run(azure.blob("some/key").set_standard_blob_tier, tier)
        for verb in ("get", "get_range"):
            with pytest.raises(UnsupportedOperationError):
                VERBS[verb](azure.store)
        assert azure.store.head("some/key").size == 10

    def test_a_server_that_is_not_there_is_unavailable(self, azure: Azure) -> None:
        port = str(azure.proxy.port)
        string = azure.options["connection_string"].replace(f":{port}/", ":9/")
        store = azure.open(connection_string=string)
        for verb in VERBS.values():
            with pytest.raises(StorageUnavailableError):
                verb(store)

    @pytest.mark.parametrize(
        "options",
        [
            {"connection_string": "nonsense"},
            {"connection_string": None, "account_name": "a", "account_key": 5},
            {"connection_string": None},
        ],
    )
    def test_options_that_say_too_little_are_invalid(
        self, azure: Azure, options: dict[str, object]
    ) -> None:
        with pytest.raises(InvalidArgumentError):
            azure.open(**options).get("a")

    def test_a_throttled_answer_gives_the_wait(self, azure: Azure) -> None:
        azure.store.put("a", b"1", overwrite=True)
        azure.proxy.add("GET", status=503, headers={"Retry-After": "1"}, times=1)
        begun = time.monotonic()
        assert azure.store.get("a") == b"1"
        assert time.monotonic() - begun >= 1


class TestSecrets:
    def test_a_wrong_key_is_permission_denied_and_nothing_is_shown(
        self, azure: Azure, caplog: pytest.LogCaptureFixture
    ) -> None:
        (key,) = secrets_of(azure)
        wrong = key[::-1].lstrip("=") + "=" * key.count("=")
        string = azure.options["connection_string"].replace(key, wrong)
        store = azure.open(connection_string=string)
        shown = ""
        with caplog.at_level(logging.DEBUG):
            for verb in VERBS.values():
                with pytest.raises(PermissionDeniedError) as caught:
                    verb(store)
                shown += everything(caught.value, store)
        for text in (shown, caplog.text):
            assert wrong not in text
            assert string not in text

    def test_an_invalid_key_is_permission_denied(self, azure: Azure) -> None:
        (key,) = secrets_of(azure)
        string = azure.options["connection_string"].replace(key, "hunter2!")
        store = azure.open(connection_string=string)
        with pytest.raises(PermissionDeniedError) as caught:
            store.get("a")
        assert "hunter2" not in everything(caught.value, store)

    def sas(self, azure: Azure, permission: str, *, hours: int) -> str:
        (key,) = secrets_of(azure)
        return generate_container_sas(
            "tieredfs",
            azure.container.container_name,
            account_key=key,
            permission=ContainerSasPermissions.from_string(permission),
            expiry=datetime.now(UTC) + timedelta(hours=hours),
        )

    def with_sas(self, azure: Azure, token: str) -> ObjectStore:
        string = (
            f"BlobEndpoint={azure.proxy.url}/tieredfs;SharedAccessSignature={token}"
        )
        return azure.open(connection_string=string)

    def test_a_shared_access_signature_does_all_it_permits(self, azure: Azure) -> None:
        store = self.with_sas(azure, self.sas(azure, "racwdl", hours=1))
        store.put("some/key", bytes(10), overwrite=True)
        for name, verb in VERBS.items():
            if name != "create":
                verb(store)
        assert [entry.key for entry in store.list()] == ["other"]

    def test_one_that_only_deletes_deletes(self, azure: Azure) -> None:
        keys = [str(number) for number in range(5)]
        for key in keys:
            azure.store.put(key, b"1", overwrite=True)
        self.with_sas(azure, self.sas(azure, "d", hours=1)).delete([*keys, "missing"])
        assert list(azure.store.list()) == []

    def test_one_that_has_expired_is_denied_and_not_shown(
        self, azure: Azure, caplog: pytest.LogCaptureFixture
    ) -> None:
        token = self.sas(azure, "racwdl", hours=-1)
        signature = token.partition("sig=")[2].partition("&")[0]
        store = self.with_sas(azure, token)
        shown = ""
        with caplog.at_level(logging.DEBUG):
            for verb in VERBS.values():
                with pytest.raises(PermissionDeniedError) as caught:
                    verb(store)
                shown += everything(caught.value, store)
        assert signature not in shown
        assert signature not in caplog.text

    def test_a_lost_connection_does_not_show_it(self, azure: Azure) -> None:
        token = self.sas(azure, "racwdl", hours=1)
        signature = token.partition("sig=")[2].partition("&")[0]
        store = self.with_sas(azure, token)
        azure.proxy.add(cut_before=True)
        for verb in VERBS.values():
            with pytest.raises(StorageUnavailableError) as caught:
                verb(store)
            assert signature not in everything(caught.value, store)


class Credential:
    """A credential of the user's, as azure-identity makes them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = False

    async def get_token(self, *scopes: str, **options: object) -> None:
        del scopes, options
        if self.error is None:
            await asyncio.sleep(60)
        else:
            raise self.error

    async def close(self) -> None:
        self.closed = True


class TestCredentials:
    def store(self, azure: Azure, credential: Credential, limit: float) -> ObjectStore:
        options: dict[str, Any] = {
            "account_name": "nobody",
            "account_host": "127.0.0.1:9",
            "credential": credential,
        }
        policy = RequestPolicy(deadline=limit, backoff=0.001)
        return ObjectStore(azure.url, options, policy=policy)

    def test_a_token_that_never_comes_is_waited_for_till_the_deadline(
        self, azure: Azure
    ) -> None:
        store = self.store(azure, Credential(), 0.5)

        def fail(verb: str) -> None:
            with pytest.raises(DeadlineExceededError):
                VERBS[verb](store)

        assert_all_end_by(0.5, [partial(fail, verb) for verb in ("get", "put")])

    def test_a_token_that_is_refused_is_permission_denied(self, azure: Azure) -> None:
        error = ClientAuthenticationError("no such user")
        store = self.store(azure, Credential(error), 5)
        for verb in VERBS.values():
            with pytest.raises(PermissionDeniedError, match="no such user"):
                verb(store)

    def test_what_the_user_made_the_user_closes(self, azure: Azure) -> None:
        credential = Credential(ClientAuthenticationError("no"))
        store = self.store(azure, credential, 5)
        with pytest.raises(PermissionDeniedError):
            store.get("a")
        del store
        gc.collect()
        azure.store.put("a", b"1", overwrite=True)  # on the loop, after what closes
        assert not credential.closed


class TestCopy:
    """A copy that takes longer is waited for; Azurite's never do."""

    def container(self, *states: str) -> Any:  # noqa: ANN401 - a stand-in
        left = list(states)

        async def start(url: str) -> dict[str, str]:
            assert url == "the source"
            return {"copy_status": left.pop(0)}

        async def look() -> object:
            return SimpleNamespace(copy=SimpleNamespace(status=left.pop(0)))

        blob = SimpleNamespace(
            url="the source", start_copy_from_url=start, get_blob_properties=look
        )
        return SimpleNamespace(get_blob_client=lambda _: blob)

    def test_it_ends_with_success(
        self, azure: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "tieredfs.objects.backends.azure.backend._POLL", timedelta()
        )
        container = self.container("pending", "pending", "success")
        monkeypatch.setattr(azure.backend, "_container", container)
        azure.store.copy("a", "b")

    def test_one_that_fails_is_an_error(
        self, azure: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "tieredfs.objects.backends.azure.backend._POLL", timedelta()
        )
        container = self.container(*["pending", "failed"] * 3)
        monkeypatch.setattr(azure.backend, "_container", container)
        with pytest.raises(StorageUnavailableError, match="failed"):
            azure.store.copy("a", "b")

    def test_it_is_waited_for_till_the_deadline(
        self, azure: Azure, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        container = self.container(*["pending"] * 9)
        monkeypatch.setattr(azure.backend, "_container", container)
        with pytest.raises(DeadlineExceededError):
            azure.store.with_policy(RequestPolicy(deadline=0.2)).copy("a", "b")


PROGRAM = """
import asyncio, gc, logging, os, sys, warnings, aiohttp, tieredfs
from adlfs import AzureBlobFileSystem
from fsspec.asyn import loop

logging.getLogger("asyncio").setLevel(logging.ERROR)  # not how slow a machine is
warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # from 3.12 on

def alive():
    kinds = (aiohttp.ClientSession, AzureBlobFileSystem)
    return sum(isinstance(each, kinds) for each in gc.get_objects())

store = tieredfs.ObjectStore(sys.argv[1], {"connection_string": sys.argv[2]})
store.put("a", b"1", overwrite=True)
assert alive() == 2
if sys.argv[3] == "fork":
    if not os.fork():
        store.get("a")
        sys.exit()  # and so the finalizers run
    assert os.wait()[1] == 0
    assert store.get("a") == b"1"
if sys.argv[3] == "drop":
    del store
    gc.collect()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), loop[0]).result()
    gc.collect()
    assert alive() == 0
"""


@pytest.mark.parametrize("end", ["fork", "drop", "exit"])
def test_a_process_ends_immediately_and_leaves_nothing_open(
    azure: Azure, end: str
) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [
            *(sys.executable, "-X", "dev", "-W", "error::ResourceWarning"),
            *("-c", PROGRAM, azure.url, azure.options["connection_string"], end),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("url", "options", "place"),
    [
        ("abfss://cont@acc.dfs.core.windows.net/x/y", {}, "acc.blob.core.windows.net"),
        ("az://cont/x/y", {"account_name": "acc"}, "acc.blob.core.windows.net"),
        (
            "abfs://cont/x/y",
            {"account_name": "a", "account_host": "a.blob.core.chinacloudapi.cn"},
            "a.blob.core.chinacloudapi.cn",
        ),
    ],
)
def test_every_way_to_name_an_account_is_understood(
    azure: Azure, url: str, options: dict[str, str], place: str
) -> None:
    del azure
    store = ObjectStore(url, {"account_key": "a2V5", **options})
    backend = store._requests.backend("", "")
    assert isinstance(backend, AzureBackend)
    assert backend._container.url == f"https://{place}/cont"
    assert backend._prefix == "x/y/"


def test_it_does_all_but_delete_in_bulk_and_seek(azure: Azure) -> None:
    missing = {StoreCapability.BULK_DELETE, StoreCapability.SEEK_LISTING}
    assert azure.store.probe_capabilities() == frozenset(StoreCapability) - missing


def test_deletes_go_one_by_one_several_at_a_time(azure: Azure) -> None:
    keys = [f"{number:02d}" for number in range(32)]
    for key in keys:
        azure.store.put(key, b"1", overwrite=True)
    azure.seen()
    azure.proxy.latency = 0.1
    begun = time.monotonic()
    azure.store.delete(keys)
    assert time.monotonic() - begun < 0.1 * 16
    assert azure.seen() == ["DELETE"] * 32


def test_a_failed_delete_lists_the_remaining_keys(azure: Azure) -> None:
    for key in ("a", "b", "c"):
        azure.store.put(key, b"1", overwrite=True)
    azure.proxy.add("DELETE", "root/b", status=403)
    with pytest.raises(PermissionDeniedError) as caught:
        azure.store.delete(["a", "b", "c", "missing"])
    assert caught.value.keys == ("b",)
    assert [entry.key for entry in azure.store.list()] == ["b"]
