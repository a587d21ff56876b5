"""Keep secrets out of messages and other shown text.

Hiding too much costs a word of a message; hiding too little reveals a key. So every
value that may be a secret by its name or its position is treated as one.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, unquote

__all__ = [
    "redact_text",
    "redact_url",
    "secret_values",
    "url_secrets",
    "without_passwords",
]

_NAME = r"key|secret|token|password|passphrase|credential|sas|auth"
_NAMES = re.compile(rf"(?i){_NAME}|cookie")
_CONNECTION = re.compile(r"(?i)connection_string")
# Up to the last "@" of the authority; further when a password has a slash, which shows
# by a colon that begins no port.
_USERINFO = re.compile(
    r"(?<=://)(?:[^/?#\s]*|[^/?#:@\s]*:(?!\d+(?:[/?#\s]|$))\S*)(?=@)"
)
_PARAMETER = re.compile(
    rf"(?i)([?&;#](?:[^=&;#?\s]*(?:{_NAME}|sig)[^=&;#?\s]*|se|sp)=)([^&;#\s\"']+)"
)
_BEFORE_A_CONTAINER = re.compile(r"(?i)\b(?:abfss?|az|wasbs?)://$")
_SCHEME = re.compile(r"([A-Za-z][\w-]*) +(\S+)")
_ONE = (str, bytes, bytearray)
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_MIN_SECRET_CHARS = 4  # replacing every "a" would hide no secret and garble a message
_HIDDEN = "***"


def redact_url(url: str) -> str:
    """Return ``url`` without user names, passwords, tokens and signatures."""
    return _PARAMETER.sub(rf"\1{_HIDDEN}", _USERINFO.sub(_shown, url))


def without_passwords(url: str) -> str:
    """Return ``url`` without passwords; other secrets stay, so it must not be shown."""
    return _USERINFO.sub(lambda found: found[0].partition(":")[0], url)


def secret_values(options: Mapping[str, object]) -> frozenset[str]:
    """Return the values in (nested) storage options whose name marks them as secret."""
    return frozenset(_secrets(options))


def url_secrets(url: str) -> frozenset[str]:
    """Return the secrets in ``url``, both as written and as a client decodes them."""
    found = {value for _, value in _PARAMETER.findall(url)}
    for userinfo in _USERINFO.findall(url):
        user, _, password = userinfo.partition(":")
        # Python reports the text before a slash as an invalid port.
        found |= {password, *re.split(r"[/?#]", password)}
        if password:
            found |= {_basic(user, password), _basic(unquote(user), unquote(password))}
    return frozenset(
        text
        for value in found
        for text in (value, unquote(value))
        if len(text) >= _MIN_SECRET_CHARS and text != _HIDDEN
    )


def redact_text(text: str, secrets: frozenset[str]) -> str:
    """Return ``text`` without any of ``secrets``, user names or signatures.

    Their encoded forms, as in URLs, bodies and printed values, are removed as well.
    """
    forms = {form for secret in secrets for form in _forms(secret)}
    for secret in sorted(forms, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return redact_url(text)


def _shown(userinfo: re.Match[str]) -> str:
    """Return what may be shown of the user info: in Azure's URLs it is a container."""
    before = userinfo.string[: userinfo.start()]
    is_container = ":" not in userinfo[0] and _BEFORE_A_CONTAINER.search(before)
    return userinfo[0] if is_container else _HIDDEN


def _secrets(options: Mapping[str, object]) -> Iterator[str]:
    """Yield the values in (nested) options whose name marks them as secret."""
    for name, value in options.items():
        yield from _below(str(name), value)
    user = options.get("username", options.get("user"))
    if isinstance(user, str) and isinstance(options.get("password"), str):
        yield _basic(user, str(options["password"]))


def _below(name: str, value: object) -> Iterator[str]:
    """Yield the secrets in a value, given its name."""
    if isinstance(value, Mapping):
        yield from _secrets(value)
    elif isinstance(value, Collection) and not isinstance(value, _ONE):
        yield from _among(name, list(value))
    elif _CONNECTION.search(name) and isinstance(value, str):
        yield value
        for part in value.split(";"):
            field, _, content = part.partition("=")
            yield from _below(field, content)
    elif _NAMES.search(name):
        for text in _texts(value):
            for each in (text, *text.splitlines(), *_sent(text)):
                if len(each) >= _MIN_SECRET_CHARS:
                    yield each


def _among(name: str, values: list[Any]) -> Iterator[str]:
    """Yield the secrets in several values that share one name."""
    if all(map(_is_pair, values)):  # such as headers
        for pair in values:
            yield from _below(*pair)
        return
    for value in values:
        yield from _below(name, value)
    if _NAMES.search(name) and _is_pair(values) and isinstance(values[1], str):
        yield _basic(*values)


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, _ONE)
        and len(value) == 2  # noqa: PLR2004 - a pair
        and isinstance(value[0], str)
    )


def _texts(value: object) -> Iterator[str]:
    """Yield the texts that one value may be printed as."""
    if isinstance(value, bytes | bytearray):
        yield repr(bytes(value))[2:-1]
        yield value.decode(errors="ignore")
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield f"{value}"


def _sent(header: str) -> Iterator[str]:
    """Yield the secrets inside the value of a credentials header."""
    found = _SCHEME.fullmatch(header)
    if found is None:
        return
    yield found[2]
    if found[1].lower() == "basic":
        with suppress(ValueError):  # not base64, or not text
            yield b64decode(found[2], validate=True).decode().partition(":")[2]


def _basic(user: str, password: str) -> str:
    """Return a user name and password as HTTP Basic authentication sends them."""
    return b64encode(f"{user}:{password}".encode()).decode()


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms a secret may have in a URL, a body or a printed value."""
    yield secret
    for encoded in (quote(secret), quote(secret, safe=""), quote_plus(secret)):
        yield encoded
        yield _PERCENT.sub(lambda found: found[0].lower(), encoded)
    yield repr(secret)[1:-1]
    yield secret.encode("unicode_escape").decode()
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield escape(secret)
