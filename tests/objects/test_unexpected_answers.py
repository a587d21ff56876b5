"""What is neither the success that a request expects nor an error is an error too.

A proxy's login page comes by a redirect or as a success of its own. It is never an
object, and what it answers was not done.
"""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from servers import FaultProxy, Fleet, ProxiedBucket, RangeHTTP
from support.prerequisites import server_of
from support.stores import CLOUDS
from tieredfs import (
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
)

PAGE = "<html><body>302 Found: log in</body></html>"
CONTENT = b"x" * len(PAGE)

READS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 0, len(PAGE)),
    "get_part": lambda store: store.get_range("key", 1, len(PAGE)),
    "head": lambda store: store.head("key"),
    "list": lambda store: list(store.list()),
}
WRITES: dict[str, Callable[[ObjectStore], object]] = {
    "put": lambda store: store.put("key", b"new", overwrite=True),
    "create": lambda store: store.put("new", b"new", overwrite=False),
    "copy": lambda store: store.copy("key", "copy"),
    "delete": lambda store: store.delete(["key"]),
    "delete several": lambda store: store.delete(["key", "other"]),
}
FOLLOWED = ("get", "get_range", "get_part", "head")
DONE = {("s3", 204, "delete"), ("gs", 204, "delete")}
"""What is success."""


CHECKED = {
    "az": ("list",),
    "abfs": ("list",),
    "gs": ("head", "list", "put", "delete", "delete several"),
    "webhdfs": ("head", "list", "put", "delete", "delete several"),
}
"""What is answered with more than a success, and less than any bytes."""


@pytest.fixture(params=[*CLOUDS, "webhdfs", "http"])
def place(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[ProxiedBucket]:
    """A place with two objects, reached through a proxy."""
    server = server_of(request.param, fleet)
    with FaultProxy(server.port) as proxy:
        place = ProxiedBucket(*fleet.place(request.param, proxy.url), proxy)
        if isinstance(server, RangeHTTP):
            root = f"{server.root}{urlsplit(place.url).path}"
            fill(ObjectStore(root))
        else:
            fill(ObjectStore(place.url, place.storage_options))
        yield place


def fill(store: ObjectStore) -> None:
    for key in ("key", "other"):
        store.put(key, CONTENT, overwrite=True)


def opened(place: ProxiedBucket) -> ObjectStore:
    """Return the store, which has found out what it can do."""
    policy = RequestPolicy(attempts=2, backoff=0.001)
    store = ObjectStore(place.url, place.storage_options, policy=policy)
    assert store.probe_capabilities()
    assert store.get("key") == CONTENT
    return store


def verbs(place: ProxiedBucket) -> dict[str, Callable[[ObjectStore], object]]:
    return READS if place.url.startswith("http") else READS | WRITES


def unchanged(store: ObjectStore) -> bool:
    return {entry.key: bytes(store.get(entry.key)) for entry in store.list()} == {
        "key": CONTENT,
        "other": CONTENT,
    }


@pytest.mark.parametrize("status", [204, 301, 302, 303, 304, 307, 308])
def test_an_answer_below_400_that_is_not_a_success_is_an_error(
    place: ProxiedBucket, status: int
) -> None:
    store = opened(place)
    bodiless = status in {204, 304}
    sent_on = {"Location": f"{place.proxy.url}/login"}
    place.proxy.add(
        status=status,
        body="" if bodiless else PAGE,
        headers={"Content-Type": "text/html"} | ({} if bodiless else sent_on),
        when=lambda request: not request.target.startswith("/login"),
    )
    place.proxy.add(
        path="^/login", status=200, body=PAGE, headers={"Content-Type": "text/html"}
    )
    scheme = urlsplit(place.url).scheme
    sends_on = status in {301, 302, 303, 307, 308}
    for name, call in verbs(place).items():
        if scheme == "http" and name in FOLLOWED and sends_on:
            continue  # a plain web server may, and its pages are objects
        if (scheme, status, name) in DONE:
            continue
        with pytest.raises(TieredFSError):
            call(store)
    place.proxy.clear()
    assert unchanged(store)


def is_web(place: ProxiedBucket) -> bool:
    return place.url.startswith("http")


def test_a_page_in_place_of_an_answer_is_an_error(place: ProxiedBucket) -> None:
    if is_web(place):
        pytest.skip("a page is what web servers answer with")
    store = opened(place)
    place.proxy.add(
        status=200, body=PAGE, headers={"Content-Type": "text/html; charset=utf-8"}
    )
    for call in verbs(place).values():
        with pytest.raises(StorageUnavailableError):
            call(store)
    place.proxy.clear()
    assert unchanged(store)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("{}", "application/json"),
        ("[]", "application/json"),
        ("null", "application/json"),
        ('{"FileStatus": 1, "FileStatuses": [], "boolean": "yes"}', "application/json"),
        ('{"FileStatus": {}, "FileStatuses": {}}', "application/json"),
        ("<?xml version='1.0'?><Error><Code>None</Code></Error>", "application/xml"),
    ],
)
def test_what_another_service_answers_is_an_error_of_the_storage(
    place: ProxiedBucket, body: str, kind: str
) -> None:
    scheme = urlsplit(place.url).scheme
    store = opened(place)
    place.proxy.add(
        status=200, body=body, headers={"Content-Type": kind, "x-ms-request-id": "1"}
    )
    for name in CHECKED.get(scheme, ()):
        # Google answers so where nothing is, and fake-gcs-server when it has deleted.
        is_empty = body.startswith("{") and name in {"list", "delete"}
        if scheme == "gs" and (is_empty or (body, name) == ("null", "delete")):
            continue
        with pytest.raises(StorageUnavailableError):
            verbs(place)[name](store)
    place.proxy.clear()
    assert unchanged(store)


def test_a_delete_that_hdfs_did_not_do_is_an_error(
    place: ProxiedBucket,
) -> None:
    if urlsplit(place.url).scheme != "webhdfs":
        pytest.skip("it is HDFS that says so")
    store = opened(place)
    kind = {"Content-Type": "application/json"}
    place.proxy.add("DELETE", status=200, body='{"boolean": false}', headers=kind)
    with pytest.raises(StorageUnavailableError, match="did not delete it"):
        store.delete(["key"])
    store.delete(["never there"])
    place.proxy.clear()
    assert unchanged(store)


MORE = "<ListBucketResult><IsTruncated>true</IsTruncated>{}</ListBucketResult>"
SAME = "<NextContinuationToken>same</NextContinuationToken>"
MARKED = "<NextMarker>same</NextMarker>"


@pytest.mark.parametrize("method", ["list", "list_pages"])
@pytest.mark.parametrize(
    ("place", "kind", "body"),
    [
        ("s3", "application/xml", MORE.format(SAME)),
        ("s3", "application/xml", MORE.format("")),
        (
            "azure",
            "application/xml",
            f"<EnumerationResults><Blobs/>{MARKED}</EnumerationResults>",
        ),
        ("gcs", "application/json", '{"nextPageToken": "same"}'),
    ],
    indirect=["place"],
)
def test_a_listing_whose_pages_do_not_end_is_an_error(
    place: ProxiedBucket, kind: str, body: str, method: str
) -> None:
    store = opened(place)
    headers = {"Content-Type": kind, "x-ms-request-id": "1"}
    place.proxy.add("GET", status=200, body=body, headers=headers)
    with pytest.raises(StorageUnavailableError, match="token"):
        list(getattr(store, method)())
    place.proxy.clear()
    assert unchanged(store)


LISTED = (
    "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>{}</Key>"
    '<Size>{}</Size><ETag>"e"</ETag></Contents></ListBucketResult>'
)


@pytest.mark.parametrize("place", ["s3"], indirect=True)
@pytest.mark.parametrize("method", ["list", "list_pages"])
@pytest.mark.parametrize(
    ("key", "size", "said"),
    [("elsewhere/key", "1", "does not begin with"), ("key", "9" * 5000, "listing")],
    ids=["a key of another prefix", "a size of 5,000 digits"],
)
def test_a_listing_of_what_was_not_asked_for_is_an_error_of_the_store(
    place: ProxiedBucket, key: str, size: str, said: str, method: str
) -> None:
    store = opened(place)
    headers = {"Content-Type": "application/xml"}
    body = LISTED.format(key, size)
    place.proxy.add("GET", status=200, body=body, headers=headers)
    with pytest.raises(StorageUnavailableError, match=said):
        list(getattr(store, method)("sought/"))
    place.proxy.clear()
    assert unchanged(store)


def test_an_answer_without_content_hides_nothing(place: ProxiedBucket) -> None:
    if is_web(place):
        pytest.skip("a file may be empty")
    store = opened(place)
    place.proxy.add(status=200, body="")
    for name, call in READS.items():
        if (urlsplit(place.url).scheme, name) == ("webhdfs", "get"):
            continue  # a file may be empty
        with pytest.raises(TieredFSError):
            call(store)


def test_a_range_from_elsewhere_is_an_error(place: ProxiedBucket) -> None:
    store = opened(place)
    place.proxy.add(
        "GET",
        status=206,
        body=PAGE[1:],
        headers={
            "Content-Range": f"bytes 7-{len(PAGE) + 5}/999",
            "ETag": '"1"',
            "x-ms-request-id": "1",
            "x-goog-generation": "1",
        },
    )
    with pytest.raises(TieredFSError):
        store.get_range("key", 1, len(PAGE))
    with pytest.raises(TieredFSError):
        store.get("key")
