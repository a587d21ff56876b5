"""Wherever a client is led, by whatever configuration, is where its store is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import gcsfs.core
import pytest

from servers import CloudServer, Fleet
from support.prerequisites import server_of
from tieredfs import ObjectStore, UnsupportedOperationError
from tieredfs.objects.backends.gcs.backend import GCSBackend
from tieredfs.objects.backends.s3 import S3Backend

KEYS = {"key": "tieredfs-key", "secret": "hush-hush-0123456789"}

PriorState = Callable[[str, pytest.MonkeyPatch, Path], dict[str, Any]]
"""Leads clients to an endpoint; returns the storage options that this takes."""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """See to it that nothing of this machine leads anywhere."""
    for name in (
        *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION"),
        *("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME"),
        *("STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_UNIVERSE_DOMAIN"),
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


def by_option(endpoint: str, _: pytest.MonkeyPatch, __: Path) -> dict[str, Any]:
    return {"endpoint_url": endpoint}


def by_client(endpoint: str, _: pytest.MonkeyPatch, __: Path) -> dict[str, Any]:
    return {"client_kwargs": {"endpoint_url": endpoint}}


def by_environment(endpoint: str, patch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    patch.setenv("AWS_ENDPOINT_URL", endpoint)
    return {}


def by_service(endpoint: str, patch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    patch.setenv("AWS_ENDPOINT_URL", "https://s3.amazonaws.com")
    patch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    return {}


def configure(patch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    path = folder / "aws.cfg"
    path.write_text(text)
    patch.setenv("AWS_CONFIG_FILE", str(path))


def by_file(endpoint: str, patch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    configure(patch, folder, f"[default]\nendpoint_url = {endpoint}\n")
    return {}


def by_section(
    endpoint: str, patch: pytest.MonkeyPatch, folder: Path
) -> dict[str, Any]:
    section = f"[services here]\ns3 =\n  endpoint_url = {endpoint}\n"
    configure(patch, folder, f"[default]\nservices = here\n{section}")
    return {}


def by_profile(
    endpoint: str, patch: pytest.MonkeyPatch, folder: Path
) -> dict[str, Any]:
    configure(patch, folder, f"[profile here]\nendpoint_url = {endpoint}\n")
    patch.setenv("AWS_PROFILE", "here")
    return {}


def by_profile_option(
    endpoint: str, patch: pytest.MonkeyPatch, folder: Path
) -> dict[str, Any]:
    configure(patch, folder, f"[profile here]\nendpoint_url = {endpoint}\n")
    return {"profile": "here"}


def by_fsspec(endpoint: str, patch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": endpoint})
    return {}


LEADS = [
    by_option,
    by_client,
    by_environment,
    by_service,
    by_file,
    by_section,
    by_profile,
    by_profile_option,
    by_fsspec,
]


@pytest.fixture
def overwriting(fleet: Fleet) -> CloudServer:
    """An S3 server that takes every condition, and overwrites."""
    server = server_of("s3-rclone", fleet)
    assert isinstance(server, CloudServer)
    return server


@pytest.mark.parametrize("lead", LEADS)
def test_a_condition_is_trusted_on_amazon_alone_however_the_endpoint_is_given(
    lead: PriorState,
    fleet: Fleet,
    overwriting: CloudServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    place = fleet.place("s3-rclone")
    given = {name: place.storage_options[name] for name in ("key", "secret")}
    given["config_kwargs"] = place.storage_options["config_kwargs"]
    options = lead(overwriting.endpoint, monkeypatch, tmp_path)
    store = ObjectStore(place.url, given | options)
    with pytest.raises(UnsupportedOperationError, match="exclusive"):
        store.put("claim", b"1", overwrite=False)
    assert list(store.list()) == []


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("url", ["s3://bucket/t", "zip://t::s3://bucket/a.zip"])
def test_another_endpoint_is_another_store_however_it_is_given(
    lead: PriorState, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def identity(endpoint: str) -> str:
        options: dict[str, Any] = KEYS | lead(endpoint, monkeypatch, tmp_path)
        return ObjectStore(url, {"s3": options} if "::" in url else options).identity

    here, there = "http://127.0.0.1:1", "http://127.0.0.1:2"
    found = [identity(here), identity(there), identity(here)]
    assert found[0] == found[2] != found[1]
    assert "hush" not in "".join(found)


def test_an_endpoint_that_is_switched_off_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = ObjectStore("s3://bucket", KEYS).identity
    by_file("http://127.0.0.1:1", monkeypatch, tmp_path)
    assert ObjectStore("s3://bucket", KEYS).identity != before
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert ObjectStore("s3://bucket", KEYS).identity == before
    assert S3Backend.open("s3://bucket", KEYS, 10).conditional_put_known


@pytest.mark.parametrize(
    ("host", "is_amazon"),
    [
        ("s3.amazonaws.com", True),
        ("s3.eu-central-1.amazonaws.com", True),
        ("s3-us-west-2.amazonaws.com", True),
        ("s3.dualstack.us-gov-west-1.amazonaws.com", True),
        ("s3-fips.us-east-1.amazonaws.com", True),
        ("s3.cn-north-1.amazonaws.com.cn", True),
        ("bucket.vpce-1a2b3c4d-5e6f.s3.us-east-1.vpce.amazonaws.com", True),
        ("ec2-1-2-3-4.compute-1.amazonaws.com", False),
        ("s3-gateway-123.us-east-1.elb.amazonaws.com", False),
        ("s3.amazonaws.com.example.org", False),
        ("127.0.0.1:9/s3.amazonaws.com", False),
    ],
)
def test_what_anybody_may_run_at_amazon_is_not_its_s3(
    host: str, is_amazon: bool
) -> None:
    options = KEYS | {"endpoint_url": f"https://{host}"}
    assert S3Backend.open("s3://bucket", options, 10).conditional_put_known is is_amazon


def test_to_say_where_it_is_a_store_asks_for_no_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    configure(
        monkeypatch, tmp_path, f"[default]\ncredential_process = /bin/touch {ran}\n"
    )
    assert ObjectStore("s3://bucket").identity
    assert not ran.exists()


@pytest.mark.parametrize(
    ("name", "value", "url", "options"),
    [
        ("STORAGE_EMULATOR_HOST", "127.0.0.1:1", "gs://bucket", {"token": "anon"}),
        pytest.param(
            *("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.org", "gs://bucket", {}),
            marks=pytest.mark.skipif(
                not hasattr(gcsfs.core, "_gcp_universe_domain"),
                reason="gcsfs before 2026.1 knows one universe",
            ),
        ),
        (
            "AZURE_STORAGE_ACCOUNT_NAME",
            "there",
            "abfs://a",
            {"account_key": "aHVzaA=="},
        ),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=there", "abfs://a", {}),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=there", "zip::abfs://a", {}),
    ],
)
def test_the_environment_of_a_cloud_makes_another_store(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    url: str,
    options: dict[str, Any],
) -> None:
    before = ObjectStore(url, options).identity
    hidden = ";AccountKey=aHVzaC1odXNo" if "=" in value else ""
    monkeypatch.setenv(name, value + hidden)
    after = ObjectStore(url, options).identity
    assert after != before
    monkeypatch.setenv(name, value + hidden.replace("aHVz", "b3Ro"))
    assert ObjectStore(url, options).identity == after  # another key, the same place


@pytest.mark.parametrize(
    ("endpoint", "is_google"),
    [
        ("https://storage.googleapis.com", True),
        ("https://storage.mtls.googleapis.com", True),
        ("http://127.0.0.1:1/storage.googleapis.com", False),
        ("http://storage.googleapis.com.example.org", False),
    ],
)
def test_a_condition_is_trusted_on_google_alone(endpoint: str, is_google: bool) -> None:
    options = {"token": "anon", "endpoint_url": endpoint}
    assert (
        GCSBackend.open("gs://bucket", options, 10).conditional_put_known is is_google
    )


def test_another_machine_behind_a_name_of_ssh_is_another_store(tmp_path: Path) -> None:
    config = tmp_path / "config"
    options = {"config": [str(config)]}
    found = set()
    for machine in ("10.0.0.1", "10.0.0.2"):
        config.write_text(f"Host archive\n  HostName {machine}\n")
        found.add(ObjectStore("sftp://archive/t", options).identity)
    assert len(found) == 2


def test_the_users_own_configuration_of_ssh_leads_to_another_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    found = [ObjectStore("sftp://archive/t").identity]
    for line in ("HostName 10.0.0.1", "HostName 10.0.0.2", "Port 3", "User else"):
        (tmp_path / ".ssh" / "config").write_text(f"Host archive\n  {line}\n")
        found.append(ObjectStore("sftp://archive/t").identity)
    assert len(set(found)) == len(found)
    unread = {"config": None}
    alone = ObjectStore("sftp://archive/t", unread).identity
    (tmp_path / ".ssh" / "config").unlink()
    assert ObjectStore("sftp://archive/t", unread).identity == alone
