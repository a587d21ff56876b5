import json
import pickle
import re
import traceback
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from html import escape
from secrets import token_hex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs import InvalidArgumentError, ObjectStore, Options
from tieredfs.objects.redact import redact_text, redact_url, secret_values, url_secrets

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/key", "s3://bucket/key"),
        ("/a/local@path/x", "/a/local@path/x"),
        ("sftp://user:pass@host/x", "sftp://***@host/x"),
        ("sftp://user@host/x@y", "sftp://***@host/x@y"),
        ("abfs://container@account/x", "abfs://container@account/x"),
        ("zip::abfss://c@account/x", "zip::abfss://c@account/x"),
        ("abfs://user:pass@account/x", "abfs://***@account/x"),
        ("simplecache::sftp://user:pass@host/x", "simplecache::sftp://***@host/x"),
        ("https://h/x?sig=abc&other=1", "https://h/x?sig=***&other=1"),
        ("https://h/x?a=1&X-Amz-Signature=abc", "https://h/x?a=1&X-Amz-Signature=***"),
        (
            "https://h/x?X-Amz-Security-Token=a%2F",
            "https://h/x?X-Amz-Security-Token=***",
        ),
        ("https://h/x?X-Goog-Signature=ab", "https://h/x?X-Goog-Signature=***"),
        ("https://h/x?token=abc", "https://h/x?token=***"),
    ],
)
def test_a_url_is_shown_without_user_names_and_signatures(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert redact_url(shown) == shown
    assert ObjectStore(url).url == shown
    assert repr(ObjectStore(url)) == f"ObjectStore({shown!r})"


@pytest.mark.parametrize(
    "url",
    [
        "sftp://user:hunt@er2@host/x",
        "https://h/x?AWSAccessKeyId=A&Signature=hunter2",
        "https://h/x?access_token=hunter2",
        "https://h/x?a=1;sig=hunter2",
        "https://h/x#sig=hunter2",
        "https://h/x?sig=a&Token=hunter2#password=hunter2",
        "s3://key:slash/in/hunter2@bucket/x",
        "sftp://user:que?stion#hunter2@host/x",
        "filecache::sftp://user:hunter2@host/x::file:///tmp",
        "https://user:hunter2@host:443/x?a=b@c",
    ],
)
def test_a_secret_in_an_odd_place_of_a_url_is_not_shown(url: str) -> None:
    store = ObjectStore(url)
    for shown in (redact_url(url), store.url, repr(store), redact_text(url, NONE)):
        assert "er2" not in shown
    assert redact_url(redact_url(url)) == redact_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/bucket/a@b",
        "http://host:9000",
        "/disk/a=b;c",
        "s3://bucket/a?b=c#d",
        "memory://a:b",
    ],
)
def test_text_that_is_not_secret_is_shown(url: str) -> None:
    assert redact_url(url) == url


def test_what_is_secret_in_a_url_is_found_as_a_client_reads_it() -> None:
    assert url_secrets("sftp://user:p%40ss@host/x?Signature=a%2Fbc") == {
        "p%40ss",
        "p@ss",
        "a%2Fbc",
        "a/bc",
        b64encode(b"user:p@ss").decode(),  # as HTTP sends it
        b64encode(b"user:p%40ss").decode(),
    }
    assert url_secrets("s3://bucket/x") == frozenset()


@pytest.mark.parametrize("kind", ["http", "sftp", "webhdfs", "ftp"])
def test_a_url_that_is_refused_does_not_show_a_part_of_its_password(kind: str) -> None:
    secret = token_hex(8)
    with pytest.raises(InvalidArgumentError) as caught:
        ObjectStore(f"{kind}://user:{secret}/slash@host/x").get("key")
    assert secret not in "".join(traceback.format_exception(caught.value))


def test_options_that_are_secret_by_name_are_found_however_deep() -> None:
    options = {
        "key": "AKIA1234",
        "secret": "s3cr3t-value",
        "anon": False,
        "endpoint_url": "http://host",
        "client_kwargs": {"aws_session_token": "t0k3n-value", "region_name": "eu"},
        "account_key": "azure-key",
        "sas_token": "sv=1&sig=x",
        "password": "p4ssw0rd",
        "number": 5,
    }
    assert secret_values(options) == {
        "AKIA1234",
        "s3cr3t-value",
        "t0k3n-value",
        "azure-key",
        "sv=1&sig=x",
        "p4ssw0rd",
    }


def test_the_parts_of_a_connection_string_are_secret() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=a+b/c==;X=y"
    found = secret_values({"connection_string": text})
    assert found == {text, "a+b/c=="}


SHAPES: list[Callable[[str], dict[str, object]]] = [
    lambda secret: {"secret": secret},
    lambda secret: {"password": secret.encode()},
    lambda secret: {"client_keys": ["/a/key", secret]},
    lambda secret: {"client_kwargs": {"headers": [("Authorization", secret)]}},
    lambda secret: {"headers": (("X-Api-Key", secret), ("Accept", "text/html"))},
    lambda secret: {"headers": {"Cookie": secret.encode()}},
    lambda secret: {"headers": {"Authorization": f"Bearer {secret}"}},
    lambda secret: {"tokens": [{"name": "x", "token": secret}]},
    lambda secret: {"auth": ("user", secret)},
    lambda secret: {"private_key": f"-----BEGIN-----\n{secret}\n-----END-----"},
]
"""Options that hold a secret."""

ENCODINGS: list[Callable[[str], str]] = [
    str,
    quote,
    partial(quote, safe=""),
    quote_plus,
    lambda secret: re.sub("%..", lambda each: each[0].lower(), quote(secret, safe="")),
    lambda secret: repr(secret)[1:-1],
    lambda secret: json.dumps(secret)[1:-1],
    escape,
]
"""How a message may show it."""


@given(
    st.text("abcXYZ019/+=&<>'\"\\%é~", min_size=6),
    st.sampled_from(SHAPES),
    st.sampled_from(ENCODINGS),
)
def test_a_secret_is_hidden_wherever_it_was_given_and_however_it_is_encoded(
    secret: str, shape: Callable[[str], dict[str, object]], shown: Callable[[str], str]
) -> None:
    message = f"no: [{shown(secret)}] was refused"
    found = redact_text(message, secret_values(shape(secret)))
    assert shown(secret) not in found
    assert found.startswith("no: [")
    assert found.endswith("] was refused")


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Authorization": "Basic dXNlcjpwYXNzdzByZA=="}},
        {"username": "user", "password": "passw0rd"},
        {"auth": ("user", "passw0rd")},
    ],
    ids=str,
)
def test_a_password_is_hidden_as_http_sends_it(options: dict[str, object]) -> None:
    secrets = secret_values(options)
    for shown in ("dXNlcjpwYXNzdzByZA==", "passw0rd"):
        assert redact_text(f"sent {shown} in vain", secrets) == "sent *** in vain"


def test_a_password_in_bytes_is_hidden_as_it_is_printed() -> None:
    secrets = secret_values({"password": b"\xff\x00hunter22"})
    assert redact_text(f"{b'a' + bytes([255, 0])!r}", secrets) == "b'a\\xff\\x00'"
    shown = redact_text(f"login failed with {bytes([255, 0]) + b'hunter22'!r}", secrets)
    assert shown == "login failed with b'***'"


def test_a_text_too_short_to_hide_is_not_a_secret() -> None:
    assert secret_values({"key": "a", "secret": "", "token": "abc"}) == frozenset()


def test_a_text_loses_every_secret_the_longest_first() -> None:
    secrets = frozenset({"abcd", "abcdefgh"})
    assert redact_text("x abcdefgh y abcd z", secrets) == "x *** y *** z"
    assert redact_text("at s3://u:p@host/x", frozenset()) == "at s3://***@host/x"


def test_a_store_pickles_no_more_than_it_was_given() -> None:
    given = {"secret": "s3cr3t-value"}
    state = ObjectStore("s3://bucket/x", given).__getstate__()
    assert state == {
        "url": "s3://bucket/x",
        "storage_options": given,
        "options": Options(),
        "policy": ObjectStore("s3://bucket").policy,
    }
    assert b"RequestCounter" not in pickle.dumps(ObjectStore("s3://bucket"))
