"""Keep secrets out of what is shown.

Hiding too much costs a word of a message, hiding too little costs a key: whatever may
be a secret by its name or its place is taken for one.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

__all__ = [
    "redact_text",
    "redact_url",
    "secret_values",
    "url_secrets",
    "without_passwords",
]

_NAME = r"key|secret|token|password|passphrase|credential|sas|auth"
_NAMES = re.compile(rf"(?i){_NAME}")
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
_SHORTEST = 4  # replacing every "a" of a message would hide nothing and tell nothing
_HIDDEN = "***"


def redact_url(url: str) -> str:
    """Return ``url`` without user names, passwords, tokens and signatures."""
    return _PARAMETER.sub(rf"\1{_HIDDEN}", _USERINFO.sub(_shown, url))


def without_passwords(url: str) -> str:
    """Return ``url`` without passwords, and with everything else: not to be shown."""
    return _USERINFO.sub(lambda found: found[0].partition(":")[0], url)


def secret_values(options: Mapping[str, object]) -> frozenset[str]:
    """Return the values in (nested) storage options that are secrets by their name."""
    return frozenset(_secrets(options))


def url_secrets(url: str) -> frozenset[str]:
    """Return what is secret in ``url``, as it stands there and as a client reads it."""
    found = {value for _, value in _PARAMETER.findall(url)}
    for userinfo in _USERINFO.findall(url):
        password = userinfo.partition(":")[2]
        # Python calls what stands before a slash a port that is none.
        found |= {password, *re.split(r"[/?#]", password)}
    return frozenset(
        text
        for value in found
        for text in (value, unquote(value))
        if len(text) >= _SHORTEST and text != _HIDDEN
    )


def redact_text(text: str, secrets: frozenset[str]) -> str:
    """Return ``text`` without any of ``secrets``, user names or signatures."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return redact_url(text)


def _shown(userinfo: re.Match[str]) -> str:
    """Return what may be seen of it: in Azure's URLs it is a container."""
    before = userinfo.string[: userinfo.start()]
    is_container = ":" not in userinfo[0] and _BEFORE_A_CONTAINER.search(before)
    return userinfo[0] if is_container else _HIDDEN


def _secrets(options: Mapping[str, object]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif not isinstance(value, str):
            continue
        elif _CONNECTION.search(name):
            yield value
            for part in value.split(";"):
                field, _, content = part.partition("=")
                if _NAMES.search(field) and len(content) >= _SHORTEST:
                    yield content
        elif _NAMES.search(name) and len(value) >= _SHORTEST:
            yield value
