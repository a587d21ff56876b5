"""Keys: which is needed, what is said when it is missing, and what is never said."""

import copy
import pickle
from pathlib import Path

import pytest
from Crypto.PublicKey import RSA

from support.samples import KEYS, fill, new_store
from support.written_segments import Written, wrap
from tieredfs import (
    InvalidArgumentError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    open_tier,
)
from tieredfs_aiven import Aiven

SEGMENT = Written(b"0123456789" * 30, is_encrypted=True, is_compressed=True)
PRIVATE = RSA.import_key(Path(KEYS["k1"]).read_bytes())
PEM = PRIVATE.export_key(pkcs=8).decode()
SECRETS = ("MII", "PRIVATE", PEM.splitlines()[3])


@pytest.fixture(scope="module")
def other() -> RSA.RsaKey:
    """Another key pair."""
    return RSA.generate(2048)


@pytest.fixture
def stored(memory: ObjectStore) -> ObjectStore:
    """A store with an encrypted segment."""
    fill(memory, SEGMENT.objects())
    return memory


def read(store: ObjectStore, keys: dict[str, str | Path] | None) -> bytes:
    storage = Aiven(store, encryption_keys=keys)
    return bytes(storage.fetch_log_segment(SEGMENT.metadata))


def test_a_key_is_a_pem_text_or_a_file(stored: ObjectStore, tmp_path: Path) -> None:
    pkcs1 = PRIVATE.export_key(pkcs=1).decode()
    (tmp_path / "pem").write_text(PEM)
    (tmp_path / "der").write_bytes(PRIVATE.export_key("DER", pkcs=8))
    with_attributes = f"Bag Attributes\n    friendlyName: k1\n{PEM}\n"
    for given in (PEM, with_attributes, pkcs1, tmp_path / "pem", str(tmp_path / "der")):
        assert read(stored, {"k1": given}) == SEGMENT.log


def test_each_manifest_says_which_key_it_needs(other: RSA.RsaKey) -> None:
    store = new_store()
    rotated = SEGMENT.with_(number=2, start_offset=10, end_offset=14)
    manifest = rotated.manifest()
    manifest["encryption"]["dataKey"] = wrap(rotated.data_key, "2026", other)
    fill(store, SEGMENT.objects())
    fill(store, rotated.objects(manifest))
    new = other.export_key(pkcs=8).decode()
    storage = Aiven(store, encryption_keys={"k1": PEM, "2026": new})
    for segment in (SEGMENT, rotated):
        assert storage.fetch_log_segment(segment.metadata) == segment.log
        assert len(storage.fetch_all_indexes(segment.metadata)) == 4
    with pytest.raises(PermissionDeniedError, match=r"'2026'.*has: 'k1'"):
        Aiven(store, encryption_keys={"k1": PEM}).fetch_log_segment(rotated.metadata)


def test_a_missing_key_is_named_with_those_that_are_there(stored: ObjectStore) -> None:
    for keys, has in ((None, "none"), ({"a": PEM, "b": PEM}, "'a', 'b'")):
        with pytest.raises(PermissionDeniedError, match=f"'k1'.*has: {has}") as caught:
            read(stored, keys)  # type: ignore[arg-type] # invariance
        assert SEGMENT.metadata.id in str(caught.value)


def test_a_key_of_another_pair_is_named(stored: ObjectStore, other: RSA.RsaKey) -> None:
    wrong = other.export_key(pkcs=8).decode()
    with pytest.raises(PermissionDeniedError, match="'k1' does not open") as caught:
        read(stored, {"k1": wrong})
    assert SEGMENT.metadata.id in str(caught.value)
    assert not any(secret in str(caught.value) for secret in SECRETS)


def test_what_can_be_read_without_a_key_is(stored: ObjectStore) -> None:
    storage = Aiven(stored)
    (partition,) = storage.list_partitions()
    assert [s.id for s in storage.list_segments(partition)] == [SEGMENT.metadata.id]


def test_a_public_key_reads_nothing(stored: ObjectStore) -> None:
    public = PRIVATE.public_key().export_key().decode()
    storage = Aiven(stored, encryption_keys={"k1": public})
    with pytest.raises(PermissionDeniedError, match="needs the private key 'k1'"):
        storage.fetch_log_segment(SEGMENT.metadata)


@pytest.mark.parametrize(
    "given",
    [
        "no such file",
        "",
        "\0",
        "x" * 5000,
        "-----BEGIN PRIVATE KEY-----\nrubbish\n-----END PRIVATE KEY-----",
        PEM[:-200],
        PEM.removeprefix("-----BEGIN PRIVATE KEY-----\n"),
        PRIVATE.export_key(pkcs=8, passphrase="locked").decode(),
    ],
    ids=[
        "no file",
        "nothing",
        "no path",
        "too long a path",
        "rubbish",
        "cut",
        "no header",
        "locked",
    ],
)
def test_what_is_no_key_is_named_and_never_shown(given: str) -> None:
    with pytest.raises(InvalidArgumentError, match="'k7'") as caught:
        Aiven(new_store(), encryption_keys={"k7": given})
    shown = "".join(
        str(error) for error in (caught.value, caught.value.__cause__) if error
    )
    assert given == "" or given not in shown
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize("given", ["k1", ["k1"], {"k1": 5}, {1: PEM}, 7])
def test_options_of_the_wrong_type_are_refused(given: object) -> None:
    with pytest.raises(InvalidArgumentError, match="encryption_keys maps"):
        Aiven(new_store(), encryption_keys=given)  # type: ignore[arg-type] # that is it
    with pytest.raises(InvalidArgumentError, match="key_prefix"):
        Aiven(new_store(), key_prefix=7)  # type: ignore[arg-type] # that is it


def test_nothing_shows_a_key(stored: ObjectStore) -> None:
    storage = Aiven(stored, encryption_keys={"k1": PEM})
    storage.fetch_all_indexes(SEGMENT.metadata)
    tier = open_tier(
        f"aiven+{stored.url}", plugin_options={"encryption_keys": {"k1": PEM}}
    )
    held = vars(storage).values()
    for shown in (repr(storage), str(storage), repr(tier), *map(repr, held)):
        assert not any(secret in shown for secret in SECRETS)
        assert SEGMENT.data_key.hex() not in shown
        assert repr(SEGMENT.data_key)[2:-1] not in shown


def test_a_pickle_has_what_was_given_and_no_data_key(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "tier"))
    fill(store, SEGMENT.objects())
    (tmp_path / "key.pem").write_text(PEM)
    for given in (PEM, str(tmp_path / "key.pem")):
        storage = Aiven(store, encryption_keys={"k1": given})
        storage.fetch_log_segment(SEGMENT.metadata)
        pickled = pickle.dumps(storage)
        assert SEGMENT.data_key not in pickled
        assert (PEM.splitlines()[3].encode() in pickled) == (given == PEM)
        again = pickle.loads(pickled)  # noqa: S301 - our own
        assert again.fetch_log_segment(SEGMENT.metadata) == SEGMENT.log


def test_a_storage_without_keys_is_pickled_too() -> None:
    again = pickle.loads(pickle.dumps(Aiven(ObjectStore("memory://x"))))  # noqa: S301 - our own
    assert repr(again) == "Aiven('memory://x')"
    fill(again.store, SEGMENT.objects())
    with pytest.raises(PermissionDeniedError, match="has: none"):
        again.fetch_log_segment(SEGMENT.metadata)


def test_a_view_under_another_policy_has_the_same_keys(stored: ObjectStore) -> None:
    storage = Aiven(stored, encryption_keys=KEYS)
    view = storage.with_policy(RequestPolicy(deadline=5.0))
    assert view.fetch_log_segment(SEGMENT.metadata) == SEGMENT.log
    assert copy.copy(view).fetch_log_segment(SEGMENT.metadata) == SEGMENT.log
