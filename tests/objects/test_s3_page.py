"""Pages of S3's listing: our parser and botocore's find the same."""

from typing import Any
from xml.sax.saxutils import escape, quoteattr

import botocore.session
import pytest
from botocore.handlers import decode_list_object_v2
from botocore.parsers import RestXMLParser
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.objects.backends.s3_page import ROWS, parse_page, rows_of, text_of
from tieredfs.objects.backends.s3_rows import Row, take_rows

SHAPE = (
    botocore.session.get_session()
    .get_service_model("s3")
    .operation_model("ListObjectsV2")
    .output_shape
)
SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
DATE = "<LastModified>2026-11-01T00:00:00.000Z</LastModified>"
KEPT = ("IsTruncated", "NextContinuationToken")

texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"),
    max_size=12,
) | st.sampled_from(["a+b", "a%20b", "%2F%", "%C3%A9", "%zz"])
sizes = st.one_of(st.integers(0, 1 << 70).map(str), st.sampled_from(["", "x", "-1"]))


def element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


@st.composite
def entries(draw: st.DrawFn) -> str:
    """Return an object, a folder, or something that no S3 server should send."""
    key = escape(draw(texts))
    kind = draw(
        st.sampled_from(["object"] * 6 + ["folder", "bare", "other", "owned", "twice"])
    )
    if kind == "folder":
        prefixes = draw(st.sampled_from([[key]] * 3 + [[], [key, "b"]]))
        listed = "".join(element("Prefix", f"{prefix}/") for prefix in prefixes)
        return element("CommonPrefixes", listed)
    if kind == "other":
        return element("Other", element("Key", key))
    fields = [element("Key", key), element("Size", draw(sizes))]
    if kind == "owned":
        fields.append(element("Owner", element("ID", key) + element("Key", "x")))
    if kind != "bare":
        tag = escape(draw(texts), {'"': "&quot;"})
        fields += [DATE, element("ETag", f"&quot;{tag}&quot;")]
    if kind == "twice":
        fields.append(draw(st.sampled_from(fields)))
    return element("Contents", "".join(draw(st.permutations(fields))))


@st.composite
def alike(draw: st.DrawFn) -> list[str]:
    """Return objects with the same fields, as servers list them."""
    made = {
        "Key": st.sampled_from(["a", "a/b c", "a%20b+c", "a>b", "é", "a&amp;b", ""]),
        "Size": st.sampled_from(["0", "7", "007", "12345678901234567890", "x"]),
        "ETag": st.sampled_from(['"a"', "&quot;a-1&quot;", "&#34;a&#34;", "a", ""]),
        "StorageClass": st.just("STANDARD"),
        "LastModified": st.just("2026-11-01T00:00:00.000Z"),
        "Owner": st.just("<ID>x</ID>") | st.just("x"),
    }
    optional = st.lists(st.sampled_from(["StorageClass", "Owner"]), unique=True)
    names = [*draw(st.permutations(["Key", "Size", "ETag", "LastModified"]))]
    names += draw(optional)
    return [
        element("Contents", "".join(element(name, draw(made[name])) for name in names))
        for _ in range(draw(st.integers(1, 4)))
    ]


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Return the body of an answer with status 200."""
    parts = draw(st.lists(entries(), max_size=6) | alike())
    for name in ("EncodingType", *KEPT):
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2]))):
            text = draw(st.sampled_from(["true", "false", "url", "a&amp;b", ""]))
            parts.append(element(name, text))
    root = draw(st.sampled_from(["ListBucketResult"] * 8 + ["Error", "html"]))
    space = draw(st.sampled_from([f" xmlns={quoteattr(SPACE)}"] * 3 + [""]))
    between = draw(st.sampled_from(["", "", "\n  ", "<!-- a comment -->", "<b/>"]))
    ordered = parts if draw(st.booleans()) else draw(st.permutations(parts))
    text = f"<{root}{space}>{between.join(['', *ordered, ''])}"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}</{root}>'.encode()


def by_botocore(answer: dict[str, Any]) -> dict[str, Any]:
    parser = RestXMLParser(timestamp_parser=lambda _: None)
    found: dict[str, Any] = parser.parse(answer, SHAPE)
    decode_list_object_v2(found, {"encoding_type_auto_set": True})
    return found


def what_is_used(page: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a listing uses, as it uses them."""
    texts = {name: page.get(name) for name in KEPT}
    several = {name for name, text in texts.items() if isinstance(text, list)}
    return (
        texts
        | dict.fromkeys(several, "several")
        | {
            "objects": list(rows_of(page)),
            "folders": [
                text_of(item["Prefix"]) for item in page.get("CommonPrefixes") or ()
            ],
        }
    )


def outcome(page: dict[str, Any]) -> dict[str, Any] | str:
    try:
        return what_is_used(page)
    except (KeyError, ValueError, OSError) as error:
        return repr(error)


@given(body=bodies())
def test_both_parsers_find_the_same(body: bytes) -> None:
    plain = {"status_code": 200, "headers": {}, "body": body}
    ours = dict(plain)
    found: dict[str, Any] = {}
    parse_page(ours, found)
    try:
        expected = by_botocore(plain)
    except Exception as error:  # noqa: BLE001 - whatever botocore raises
        with pytest.raises(type(error)):
            by_botocore(ours)
        return
    assert outcome(by_botocore(ours) | found) == outcome(expected)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"<ListBucketResult><Contents>"),
        (200, b"<Error><Code>SlowDown</Code></Error>"),
        (200, b"<html><body>log in</body></html>"),
        (503, b"<ListBucketResult></ListBucketResult>"),
        (
            200,
            b"<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        ),
        (200, f"<ListBucketResult><Name xmlns={SPACE!r}/></ListBucketResult>".encode()),
        (
            200,
            f"<ListBucketResult><Contents xmlns={SPACE!r}><Key>a</Key><Size>1</Size>"
            "</Contents></ListBucketResult>".encode(),
        ),
    ],
)
def test_what_is_not_a_page_is_left_to_botocore(status: int, body: bytes) -> None:
    answer = {"status_code": status, "headers": {}, "body": body}
    found: dict[str, Any] = {}
    parse_page(answer, found)
    assert not found or status == 200
    assert (answer["body"] == body) == (not found)


def test_the_dates_of_a_page_are_not_parsed() -> None:
    name = element("Key", "a b") + element("Size", "7")
    content = element("Contents", name + element("LastModified", "no date"))
    body = f"<ListBucketResult xmlns={SPACE!r}>{content}</ListBucketResult>".encode()
    answer = {"status_code": 200, "headers": {}, "body": body}
    found: dict[str, Any] = {}
    parse_page(answer, found)
    assert found[ROWS] == [Row("a b", 7, "")]
    assert answer["body"] == b""


PAGE = element("Contents", element("Key", "a") + "<Size>1</Size><ETag>e</ETag>")


@pytest.mark.parametrize(
    "body",
    [
        f"<L>{PAGE}<!-- {PAGE} --></L>",
        f"<L>{PAGE}<b>{PAGE}</L>",
        f"<L>{PAGE}{PAGE.replace('Size>1<', 'Size>x<')}</L>",
        f"<L>{PAGE}{PAGE.replace('>a<', '>&lt;<')}</L>",
        f"<L>{PAGE}{PAGE.replace('>a<', '>é<')}</L>",
        f"<L>{PAGE.replace('<Size>1</Size>', '')}</L>",
        f"<L>{PAGE[:-1]}",
        "<L></L>",
    ],
)
def test_objects_that_are_not_alike_and_plain_are_not_taken_out(body: str) -> None:
    assert take_rows(body.encode()) is None


def test_objects_that_are_alike_are_taken_out() -> None:
    other = PAGE.replace(">a<", ">a%2Fb<").replace(">e<", ">&quot;e-2&quot;<")
    taken = take_rows(f"<L>\n{PAGE}\n{other}<x>1</x></L>".encode())
    assert taken is not None
    assert taken[0] == [Row("a", 1, "e"), Row("a%2Fb", 1, "e-2")]
    assert taken[1] == b"<L>\n<Contents /><x>1</x></L>"


@pytest.mark.parametrize(
    "body",
    [
        f"<ListBucketResult><b>{PAGE}</b></ListBucketResult>",
        f"<ListBucketResult><b xmlns='u'>{PAGE}</b></ListBucketResult>",
    ],
)
def test_objects_that_are_elsewhere_are_not_those_of_the_page(body: str) -> None:
    found: dict[str, Any] = {}
    parse_page({"status_code": 200, "headers": {}, "body": body.encode()}, found)
    assert found.get(ROWS, []) == []
