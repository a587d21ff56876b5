"""Envelope encryption: RSA key pairs wrap a data key per segment, which is AES-256-GCM.

A chunk or an index is stored as IV (12 bytes), ciphertext, tag (16). The additional
data are 32 random bytes per segment: nothing binds a chunk to its place. The data key
is wrapped by RSA-OAEP with SHA3-512, for the mask as well, which pyca/cryptography
refuses and pycryptodome has. Key pairs have ids, so that they can be changed: each
manifest names the one it needs. Wrapping takes the public key of a pair only.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cachetools import LRUCache
from Crypto.Cipher import AES, PKCS1_OAEP
from Crypto.Hash import SHA3_512
from Crypto.PublicKey import RSA

from tieredfs import InvalidArgumentError, PermissionDeniedError

__all__ = [
    "OVERHEAD",
    "DataKey",
    "KeyRing",
    "RandomBytes",
    "WrappedKey",
    "WrongTagError",
]

_IV: Final = 12
_TAG: Final = 16
_AES_256: Final = 32
_AAD: Final = 32
_PEM: Final = b"-----BEGIN"
_MAX_DATA_KEYS: Final = 1024  # unwrapping one takes 2 ms
_MIN_RSA_BYTES: Final = 2 * SHA3_512.digest_size + 2 + _AES_256
"""Bytes of the smallest modulus that wraps a data key."""

OVERHEAD: Final = _IV + _TAG
"""Bytes that encryption adds."""


RandomBytes = Callable[[int], bytes]
"""Returns that many bytes that cannot be predicted, such as ``os.urandom``."""


class WrongTagError(Exception):
    """The bytes are not those that were encrypted."""


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A segment's data key as stored in its manifest.

    Attributes:
        key_id: Id of the key pair that wrapped it.
        wrapped: The data key, encrypted.
        aad: The additional data.
    """

    key_id: str
    wrapped: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class DataKey:
    """A segment's data key."""

    key: bytes = field(repr=False)
    aad: bytes = field(repr=False)

    def encrypt(self, data: bytes, random_bytes: RandomBytes) -> bytes:
        """Return what is stored of ``data``: IV, ciphertext and tag.

        Args:
            data: The plaintext.
            random_bytes: Gives the IV, which may never repeat under one key.
        """
        cipher = AES.new(self.key, AES.MODE_GCM, nonce=random_bytes(_IV), mac_len=_TAG)
        cipher.update(self.aad)
        sealed, tag = cipher.encrypt_and_digest(data)
        return b"".join((cipher.nonce, sealed, tag))

    def decrypt(self, data: memoryview) -> memoryview:
        """Return the plaintext.

        Raises:
            WrongTagError: The bytes were not encrypted with this key.
        """
        if len(data) < OVERHEAD:
            raise WrongTagError(f"{len(data)} bytes have no IV and tag")
        cipher = AES.new(self.key, AES.MODE_GCM, nonce=bytes(data[:_IV]), mac_len=_TAG)
        cipher.update(self.aad)
        try:
            found = cipher.decrypt_and_verify(data[_IV:-_TAG], bytes(data[-_TAG:]))
        except ValueError as error:
            raise WrongTagError("the tag does not match") from error
        return memoryview(found)


class KeyRing:
    """The given keys, by id: private ones, which read and write, or public ones.

    The pickled state is the given mapping; neither keys nor paths are ever shown.
    """

    def __init__(self, given: object) -> None:
        """Read the keys.

        Args:
            given: Maps ids to PEM texts, or to the paths of files in PEM or DER; None
                for no keys.

        Raises:
            InvalidArgumentError: It is not such a mapping, or a key is not an RSA key.
        """
        pairs = {} if given is None else given
        if not isinstance(pairs, Mapping) or not all(
            isinstance(part, str | Path) for pair in pairs.items() for part in pair
        ):
            raise InvalidArgumentError(
                "encryption_keys maps the ids of keys to PEM texts or paths of files"
            )
        self._given = {str(key_id): str(value) for key_id, value in pairs.items()}
        self._start()
        for key_id in self._given:
            self._key(key_id)

    def check_can_wrap(self, key_id: str) -> None:
        """Check that data keys can be wrapped with a key.

        Raises:
            InvalidArgumentError: It was not given, is too small, or has an id that a
                manifest cannot contain.
        """
        if key_id not in self._given:
            has = ", ".join(map(repr, self._given)) or "none"
            raise InvalidArgumentError(
                f"encryption_key_id: no key {key_id!r}; encryption_keys has: {has}"
            )
        if not key_id.strip() or ":" in key_id:
            raise InvalidArgumentError(
                f"encryption_key_id: {key_id!r} is blank or contains a colon"
            )
        size = self._key(key_id).size_in_bytes()
        if size < _MIN_RSA_BYTES:
            raise InvalidArgumentError(
                f"encryption_keys: {key_id!r} has {8 * size} bits; wrapping a data key "
                f"takes {8 * _MIN_RSA_BYTES}"
            )

    def new_data_key(
        self, key_id: str, random_bytes: RandomBytes
    ) -> tuple[DataKey, WrappedKey]:
        """Return a new data key, for one segment, and what a manifest has of it.

        Args:
            key_id: Id of the key that wraps it, which ``check_can_wrap`` accepts.
            random_bytes: Gives the data key, the additional data and OAEP's seed.
        """
        data_key = DataKey(random_bytes(_AES_256), random_bytes(_AAD))
        cipher = PKCS1_OAEP.new(
            self._key(key_id), hashAlgo=SHA3_512, randfunc=random_bytes
        )
        wrapped = cipher.encrypt(data_key.key)
        return data_key, WrappedKey(key_id, wrapped, data_key.aad)

    def unwrap(self, wrapped: WrappedKey, name: str) -> DataKey:
        """Return a segment's data key.

        Args:
            wrapped: The wrapped key from its manifest.
            name: Manifest name used in error messages.

        Raises:
            PermissionDeniedError: The private key is missing, or does not unwrap it.
        """
        with self._lock:
            known = self._unwrapped.get(wrapped)
        if known is not None:
            return known
        key_id = wrapped.key_id
        if key_id not in self._given:
            has = ", ".join(map(repr, self._given)) or "none"
            raise PermissionDeniedError(
                f"{name}: it needs the key {key_id!r}; encryption_keys has: {has}"
            )
        private = self._key(key_id)
        if not private.has_private():
            raise PermissionDeniedError(
                f"{name}: it needs the private key {key_id!r}; encryption_keys has the "
                "public one"
            )
        cipher = PKCS1_OAEP.new(private, hashAlgo=SHA3_512)
        try:
            key = cipher.decrypt(wrapped.wrapped)
        except ValueError:
            key = b""
        if len(key) != _AES_256:
            raise PermissionDeniedError(
                f"{name}: the key {key_id!r} does not open its data key: it is of "
                "another pair, or the manifest is damaged"
            )
        found = DataKey(key, wrapped.aad)
        with self._lock:
            self._unwrapped[wrapped] = found
        return found

    def __repr__(self) -> str:
        """Show the ids."""
        return f"KeyRing({', '.join(map(repr, self._given))})"

    def __getstate__(self) -> dict[str, str]:
        """Return the given mapping."""
        return self._given

    def __setstate__(self, given: dict[str, str]) -> None:
        """Restore the given mapping; a file is read when its key is needed."""
        self._given = given
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, RSA.RsaKey] = {}
        self._unwrapped: LRUCache[WrappedKey, DataKey] = LRUCache(_MAX_DATA_KEYS)

    def _key(self, key_id: str) -> RSA.RsaKey:
        known = self._keys.get(key_id)
        if known is None:
            known = self._keys[key_id] = _read(self._given[key_id], key_id)
        return known


def _read(given: str, key_id: str) -> RSA.RsaKey:
    """Read a key; errors omit the given text, which may be a secret."""
    content = given.encode()
    if _PEM not in content:
        try:
            content = Path(given).read_bytes()
        except (OSError, ValueError):
            content = b""
        if not content:
            raise InvalidArgumentError(
                f"encryption_keys: {key_id!r} is neither PEM text nor a readable file"
            )
    # openssl puts attributes in front of a key, which pycryptodome does not expect.
    content = content[content.find(_PEM) :].strip() if _PEM in content else content
    try:
        key = RSA.import_key(content)
    except (ValueError, IndexError, TypeError):
        key = None
    if key is None:
        raise InvalidArgumentError(f"encryption_keys: {key_id!r} is not an RSA key")
    return key
