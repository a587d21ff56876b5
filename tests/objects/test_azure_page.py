"""Pages of Azure's listing: our parser and the client's find the same."""

from typing import Any
from xml.sax.saxutils import escape

import pytest
from azure.storage.blob import BlobProperties
from azure.storage.blob._deserialize import get_blob_properties_from_generated_code
from azure.storage.blob._generated import models
from azure.storage.blob._generated._utils.serialization import Deserializer
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.objects.backends.azure.page import PageTaker

PARSER = Deserializer(
    {name: kind for name, kind in vars(models).items() if isinstance(kind, type)}
)
SIZE = "<Content-Length>7</Content-Length>"
KIND = "<BlobType>BlockBlob</BlobType>"
BLOB = f"<Blob><Name>a</Name><Properties>{SIZE}<Etag>e</Etag></Properties></Blob>"


def page(listed: str) -> bytes:
    """Return the body of an answer that lists objects."""
    return f"<EnumerationResults><Blobs>{listed}</Blobs></EnumerationResults>".encode()


texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"),
    max_size=8,
) | st.sampled_from(["a/b c", "a%20b", "a+b", "%EF%BF%BE", " a "])


class Answer:
    """An answer, as the client's transport returns it."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.status_code = status
        self.headers = {"content-type": "application/xml"}
        self._body = body

    def body(self) -> bytes:
        """Return the bytes."""
        return self._body

    def text(self, encoding: str | None = None) -> str:
        """Return the text."""
        return self._body.decode(encoding or "utf-8-sig")


class Response:
    """What a hook of the client gets."""

    def __init__(self, answer: Answer) -> None:
        self.http_response: Any = answer


@st.composite
def blobs(draw: st.DrawFn) -> str:
    """Draw an object, or what no server should send in its place."""
    kind = draw(st.sampled_from(["Blob"] * 8 + ["BlobPrefix", "Other"]))
    encoded = draw(st.sampled_from(["", "", ' Encoded="true"', ' Encoded="false"']))
    size = draw(st.sampled_from(["0", "7", "007", str(1 << 40), "", "x"]))
    date = "<Last-Modified>Sun, 01 Nov 2026 00:00:00 GMT</Last-Modified>"
    etag = draw(st.sampled_from(["0x8D", '"0x8D"', ""]))
    fields = [
        f"<Content-Length>{size}</Content-Length>",
        f"<Etag>{etag}</Etag>",
        date,
        KIND,
    ]
    if draw(st.booleans()):
        fields.append("<ResourceType>directory</ResourceType>")
    metadata = draw(
        st.sampled_from(
            [
                "",
                "<Metadata/>",
                "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>",
            ]
        )
    )
    name = f"<Name{encoded}>{escape(draw(texts))}</Name>"
    properties = f"<Properties>{''.join(draw(st.permutations(fields)))}</Properties>"
    return f"<{kind}>{name}{properties}{metadata}</{kind}>"


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw the body of an answer with status 200."""
    listed = "".join(draw(st.lists(blobs(), max_size=4)))
    following = draw(st.sampled_from(["<NextMarker/>", "<NextMarker>n</NextMarker>"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    head = '<?xml version="1.0" encoding="utf-8"?>'
    return (
        f'{mark}{head}<EnumerationResults ServiceEndpoint="s" ContainerName="c">'
        f"<Prefix>p</Prefix><Blobs>{listed}</Blobs>{following}</EnumerationResults>"
    ).encode()


def parsed(answer: object) -> tuple[str, list[BlobProperties]]:
    """Parse a page as the client does."""
    found = PARSER("ListBlobsFlatSegmentResponse", answer)
    items = found.segment.blob_items or []
    return found.next_marker, list(map(get_blob_properties_from_generated_code, items))


@given(bodies())
def test_both_parsers_find_the_same(body: bytes) -> None:
    response, taker = Response(Answer(body)), PageTaker()
    taker(response)
    if taker.blobs is None:
        assert response.http_response.body() == body
        return
    following, left = parsed(response.http_response)
    expected, items = parsed(Answer(body))
    assert (following, left) == (expected, [])
    assert [(one.name, one.size, one.etag or "") for one in taker.blobs] == [
        (one.name, one.size, one.etag or "") for one in items
    ]
    assert [dict(one.metadata) for one in taker.blobs] == [
        dict(one.metadata or {}) for one in items
    ]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"<EnumerationResults><Blobs>"),
        (200, b"<EnumerationResults></EnumerationResults>"),
        (200, b"<Error><Code>ServerBusy</Code></Error>"),
        (200, b"<html><body>log in</body></html>"),
        (503, page(BLOB)),
        (200, page("<Blob><Name>a</Name></Blob>")),
    ],
)
def test_what_is_not_a_page_is_left_to_the_client(status: int, body: bytes) -> None:
    response, taker = Response(Answer(body, status)), PageTaker()
    taker(response)
    assert taker.blobs is None
    assert response.http_response.body() == body


def test_the_objects_of_a_page_are_not_parsed_by_the_client() -> None:
    response, taker = Response(Answer(page(BLOB))), PageTaker()
    taker(response)
    assert taker.blobs == [("a", 7, "e", {})]
    assert b"Name" not in response.http_response.body()
    assert response.http_response.status_code == 200
