"""Every failure is a typed error that names the place and shows no secret."""

import logging
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from servers import Bucket, FaultProxy, SeaweedS3
from support.child_process import GIVE_UP_PRIVILEGES
from support.events import Events
from support.stores import make_place
from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    PluginNotInstalledError,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)

SECRET = "wrong-secret-0123456789"  # noqa: S105 - made up

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


def failure(store: ObjectStore, verb: str) -> TieredFSError:
    with pytest.raises(TieredFSError) as caught:
        VERBS[verb](store)
    return caught.value


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_bucket_is_not_found(s3_server: SeaweedS3, verb: str) -> None:
    store = ObjectStore("s3://no-such-bucket-here/x", s3_server.storage_options())
    error = failure(store, verb)
    assert isinstance(error, NotFoundError)
    if verb != "head":  # whose answer has no body that could say which it is
        said = "not found: s3://no-such-bucket-here/x: there is no such bucket"
        assert str(error) == said


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_secret_is_permission_denied_and_not_shown(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    verb: str,
) -> None:
    place = make_place("s3", request, tmp_path)
    events = Events()
    options = place.storage_options | {"secret": SECRET}
    store = ObjectStore(place.url, options, observer=events)
    with caplog.at_level(logging.DEBUG, "tieredfs"):
        error = failure(store, verb)
    assert isinstance(error, PermissionDeniedError)
    assert isinstance(error, PermissionError)
    assert f"{place.url}/some/" in str(error)
    shown = [
        str(error),
        repr(error),
        repr(store),
        str(store),
        repr(events),
        caplog.text,
        "".join(traceback.format_exception(error)),
        pickle.dumps(error).decode("latin1"),
        pickle.dumps(list(events)).decode("latin1"),
    ]
    assert [text for text in shown if SECRET in text] == []


def test_a_server_that_is_not_there_is_unavailable(s3_server: SeaweedS3) -> None:
    options = s3_server.storage_options(endpoint="http://127.0.0.1:9")
    policy = RequestPolicy(attempts=2, backoff=0.001)
    store = ObjectStore("s3://bucket", options, policy=policy)
    for verb in VERBS:
        assert isinstance(failure(store, verb), StorageUnavailableError)


def test_a_file_that_may_not_be_read_is_permission_denied(tmp_path: Path) -> None:
    program = GIVE_UP_PRIVILEGES + (
        "import sys, tieredfs\n"
        "store = tieredfs.ObjectStore(sys.argv[1])\n"
        "for call in (lambda: store.get('a'), lambda: store.get_range('a', 0, 1),\n"
        "             lambda: store.put('b', b'', overwrite=True),\n"
        "             lambda: list(store.list('closed/'))):\n"
        "    try:\n"
        "        call()\n"
        "    except tieredfs.PermissionDeniedError as error:\n"
        "        print(error.kind)\n"
    )
    root = tmp_path / "root"
    (root / "closed").mkdir(parents=True)
    (root / "a").write_bytes(b"1")
    (root / "a").chmod(0)
    (root / "closed").chmod(0)
    root.chmod(0o500)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, str(root)],
        capture_output=True,
        text=True,
        check=True,
    )
    for folder in (root, root / "closed"):
        folder.chmod(0o700)  # so that pytest can remove it
    assert done.stdout.split() == ["permission_denied"] * 4


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_protocol_is_an_invalid_argument(verb: str) -> None:
    error = failure(ObjectStore("nosuch://user:hunter2secret@bucket/x"), verb)
    assert isinstance(error, InvalidArgumentError)
    assert "nosuch" in str(error)
    assert "hunter2secret" not in str(error)


@pytest.mark.parametrize(
    ("url", "package", "command"),
    [
        ("s3://b/x", "s3fs", "pip install 'tieredfs[s3]'"),
        ("s3a://b/x", "s3fs", "pip install 'tieredfs[s3]'"),
        ("gs://b/x", "gcsfs", "pip install 'tieredfs[gcs]'"),
        ("gcs://b/x", "gcsfs", "pip install 'tieredfs[gcs]'"),
        ("abfs://c@account/x", "adlfs", "pip install 'tieredfs[azure]'"),
        ("az://c/x", "adlfs", "pip install 'tieredfs[azure]'"),
        ("simplecache::gs://b/x", "gcsfs", "pip install 'tieredfs[gcs]'"),
        # What an extra brings may be missing in any order.
        ("gs://b/x", "requests", "pip install 'tieredfs[gcs]'"),
        ("gs://b/x", "aiohttp", "pip install 'tieredfs[gcs]'"),
        ("gs://b/x", "google.auth", "pip install 'tieredfs[gcs]'"),
        ("abfs://c@account/x", "aiohttp", "pip install 'tieredfs[azure]'"),
        ("abfs://c@account/x", "azure", "pip install 'tieredfs[azure]'"),
        ("s3://b/x", "aiobotocore", "pip install 'tieredfs[s3]'"),
        ("s3://b/x", "aiohttp", "pip install 'tieredfs[s3]'"),
        ("sftp://host/x", "sshfs", "pip install 'tieredfs[sftp]'"),
        ("sftp://host/x", "asyncssh", "pip install 'tieredfs[sftp]'"),
        ("https://host/x", "aiohttp", "pip install 'tieredfs[http]'"),
        ("webhdfs://host/x", "requests", "pip install 'tieredfs[webhdfs]'"),
        ("zip::gs://b/x.zip", "gcsfs", "pip install 'tieredfs[gcs]'"),
        ("zip::s3://b/x.zip", "aiobotocore", "pip install 'tieredfs[s3]'"),
    ],
)
def test_a_missing_package_is_reported_with_the_exact_command(
    url: str, package: str, command: str
) -> None:
    program = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "import tieredfs\n"
        "try:\n"
        f"    tieredfs.ObjectStore({url!r}).get('a')\n"
        "except tieredfs.PluginNotInstalledError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert command in done.stdout


def test_a_missing_package_without_an_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "smbclient", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.smb", raising=False)
    with pytest.raises(PluginNotInstalledError, match="smbprotocol"):
        ObjectStore("smb://host/x").get("a")


@pytest.mark.parametrize("url", ["hdfs://host/x", "zip::hdfs://host/x.zip"])
def test_without_hadoop_the_error_names_the_command_and_is_not_retried(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[object] = []

    def load(*_: object, **__: object) -> NoReturn:
        tries.append(1)
        raise OSError("Prior attempt to load libhdfs failed")

    monkeypatch.setattr("pyarrow.fs.HadoopFileSystem", load)
    with pytest.raises(PluginNotInstalledError, match="install Hadoop and Java") as no:
        ObjectStore(url).get("a")
    assert "\n" not in str(no.value)
    assert len(tries) == 1


def test_a_profile_that_is_missing_is_not_taken_for_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(InvalidArgumentError, match="no-such-profile"):
        ObjectStore("s3://bucket/x").get("a")


def test_a_clients_message_of_many_lines_becomes_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError("\nthe disk is wet\nand cold")

    monkeypatch.setattr(
        "tieredfs.objects.backends.local.backend.LocalBackend.get", refuse
    )
    policy = RequestPolicy(attempts=1)
    with pytest.raises(StorageUnavailableError, match=r"OSError: the disk is wet$"):
        ObjectStore(str(tmp_path), policy=policy).get("a")


def test_making_a_store_asks_nothing(s3_server: SeaweedS3) -> None:
    options = s3_server.storage_options(endpoint="http://127.0.0.1:9")
    assert ObjectStore("s3://bucket", options).url == "s3://bucket"
    assert ObjectStore("nosuch://x").url == "nosuch://x"


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_kwargs": {"no_such": 1}},
        {"client_kwargs": "text"},
        {"config_kwargs": {"no_such": 1}},
        {"config_kwargs": "text"},
        {"endpoint_url": "no url"},
        {"max_concurrency": 0},
        {"max_concurrency": "many"},
        {"username": "as well as key"},
        {"no_such_option": 1},
    ],
    ids=repr,
)
def test_an_s3_option_of_a_wrong_kind_is_a_typed_error(
    s3_server: SeaweedS3, wrong: dict[str, Any]
) -> None:
    store = ObjectStore("s3://bucket/x", s3_server.storage_options() | wrong)
    with pytest.raises(InvalidArgumentError, match="s3://bucket/x"):
        store.get("a")


@pytest.mark.parametrize("verb", ["get", "get_range", "head", "list"])
def test_a_web_server_that_is_not_there_is_unavailable(verb: str) -> None:
    policy = RequestPolicy(attempts=2, backoff=0.001)
    store = ObjectStore("http://127.0.0.1:9/folder", policy=policy)
    assert isinstance(failure(store, verb), StorageUnavailableError)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (503, StorageUnavailableError),
    ],
)
@pytest.mark.parametrize("verb", ["get", "get_range", "head"])
def test_the_answer_of_a_web_server_is_what_is_raised(
    s3_server: SeaweedS3, verb: str, status: int, error: type[TieredFSError]
) -> None:
    with FaultProxy(s3_server.port) as proxy:
        proxy.add(status=status)
        policy = RequestPolicy(attempts=2, backoff=0.001)
        url = f"{proxy.url}/folder?sig=hunter2-signature"
        caught = failure(ObjectStore(url, policy=policy), verb)
    assert isinstance(caught, error)
    assert "hunter2" not in "".join(traceback.format_exception(caught))


def test_what_a_store_cannot_do_is_an_unsupported_operation() -> None:
    error = failure(ObjectStore("http://host/x"), "copy")
    assert isinstance(error, UnsupportedOperationError)
    assert "http://host/x/other" in str(error)


def test_a_key_too_long_for_the_disk_is_not_tried_again(tmp_path: Path) -> None:
    events = Events()
    store = ObjectStore(str(tmp_path), observer=events)
    with pytest.raises(TieredFSError) as caught:
        store.put("x" * 300, b"1", overwrite=True)
    assert isinstance(caught.value, InvalidArgumentError)
    assert not caught.value.retryable
    assert [event.attempts for event in events] == [1]


def test_an_error_travels_between_processes_with_type_and_message(
    place: Bucket,
) -> None:
    store = ObjectStore(place.url, place.storage_options)
    with pytest.raises(NotFoundError) as caught:
        store.get("some/key")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert type(again) is NotFoundError
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://bucket/x"])
def test_a_key_that_cannot_be_sent_is_refused_immediately(url: str) -> None:
    events = Events()
    options = {"token": "anon"} if url[0] == "g" else {"key": "a", "secret": "b"}
    options["endpoint_url"] = "http://127.0.0.1:9"
    with pytest.raises(InvalidArgumentError):
        ObjectStore(url, options, observer=events).get("a\udcff")
    assert [event.attempts for event in events] == [1]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("memory://", "memory://no/such"),
        ("memory://x", "memory://x/no/such"),
        ("memory://x/", "memory://x/no/such"),
        ("file:///", "file:///no/such"),
        ("/", "/no/such"),
    ],
)
def test_an_object_is_named_by_the_url_of_its_store(url: str, name: str) -> None:
    with pytest.raises(NotFoundError, match=f": {name}$"):
        ObjectStore(url).get("no/such")
