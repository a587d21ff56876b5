"""Keep secrets out of what is shown."""

import re
from collections.abc import Iterator, Mapping

__all__ = ["redact_text", "redact_url", "secret_values"]

_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")
_SIGNED = re.compile(
    r"(?i)([?&](?:sig|se|sp|token|x-amz-signature|x-amz-security-token|"
    r"x-amz-credential|x-goog-signature)=)[^&\s\"']+"
)
_NAMES = re.compile(r"(?i)key|secret|token|password|passphrase|credential|sas|auth")
_CONNECTION = re.compile(r"(?i)connection_string")
_SHORTEST = 4  # replacing every "a" of a message would hide nothing and tell nothing


def redact_url(url: str) -> str:
    """Return ``url`` without user names, passwords and signatures."""
    return _SIGNED.sub(r"\1***", _USERINFO.sub("***@", url))


def secret_values(options: Mapping[str, object]) -> frozenset[str]:
    """Return the values in (nested) storage options that are secrets by their name."""
    return frozenset(_secrets(options))


def redact_text(text: str, secrets: frozenset[str]) -> str:
    """Return ``text`` without any of ``secrets``, user names or signatures."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return redact_url(text)


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
