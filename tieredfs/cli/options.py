"""Options of several commands, and the stores and tiers that they open."""

import json
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Final

import click

from tieredfs.cli.output.progress import quiet_option
from tieredfs.cli.output.tables import without_prints
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.objects import (
    DryRunStore,
    ObjectStore,
    RateLimit,
    RequestObserver,
    RequestPolicy,
)
from tieredfs.options import DEFAULTS, Options, option_ranges
from tieredfs.storage import (
    NATIVE_LAYOUT,
    RemoteStorageManager,
    StorageAddress,
    check_target,
    compressed,
    open_storage,
)
from tieredfs.tier import Tier, cached

__all__ = [
    "JsonObject",
    "Rate",
    "StoreOptions",
    "TierOptions",
    "cache_option",
    "json_option",
    "store_options",
    "tier_options",
]

_SUFFIXES: Final = ["", "K", "M", "G", "T", "P"]
_RATE: Final = re.compile(
    r"(\d{1,18}(?:\.\d{1,18})?)(|[KMGTP])(?:i?B?)", re.ASCII | re.IGNORECASE
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Answer in JSON, for programs."
)


class JsonObject(click.ParamType[dict[str, object]]):
    """A JSON object given as one argument."""

    name = "json"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> dict[str, object]:
        """Parse it; errors omit the value, as it may contain secrets."""
        try:
            parsed = json.loads(str(value))
        except json.JSONDecodeError as error:
            self.fail(f"not JSON: {error.msg} at character {error.pos}", param, ctx)
        except (ValueError, RecursionError):  # an excessive number or nesting
            self.fail("not JSON that can be parsed", param, ctx)
        if not isinstance(parsed, dict):
            self.fail("not a JSON object", param, ctx)
        return parsed


class Seconds(click.ParamType[float]):
    """A time to wait: above 0, and at most what a thread can wait."""

    name = "seconds"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Reject a time that no clock can count."""
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= threading.TIMEOUT_MAX:  # nan is neither
            maximum = f"{threading.TIMEOUT_MAX:.0f}"
            self.fail(
                f"{value} seconds are not above 0 and up to {maximum}", param, ctx
            )
        return seconds


class Rate(click.ParamType[float]):
    """Bytes a second, with a suffix as rclone's: 1M is 1,048,576."""

    name = "rate"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Parse it; reject a rate of 0."""
        match = _RATE.fullmatch(str(value))
        rate = 0.0
        if match is not None:
            rate = float(match[1]) * 1024 ** _SUFFIXES.index(match[2].upper())
        if not 0 < rate < math.inf:
            msg = f"{value} is not a number of bytes a second, such as 800K or 1.5M"
            self.fail(msg, param, ctx)
        return rate


class NameAndValue(click.ParamType[tuple[str, str]]):
    """A field of Options and its value, with ``=`` between them."""

    name = "option"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, str]:
        """Reject a name that no option has, and a value out of its range."""
        name, equals, text = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        try:
            Options.parse({name: text})
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)
        return name, text


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to reach a store.

    Attributes:
        storage_options: Options of fsspec.
        deadline: Maximum seconds of one call.
        tuned: The sizes and limits of reads and writes.
    """

    storage_options: Mapping[str, object] | None = field(repr=False)
    deadline: float
    tuned: Options = DEFAULTS

    def local(self, path: str) -> ObjectStore:
        """Return the store at a path or URL that needs no options of fsspec."""
        policy = RequestPolicy(deadline=self.deadline)
        return ObjectStore(path, policy=policy, options=self.tuned)

    def store(
        self,
        url: str,
        observer: RequestObserver | None = None,
        rate_limit: RateLimit | None = None,
    ) -> ObjectStore:
        """Return the object store at ``url``."""
        policy = RequestPolicy(deadline=self.deadline)
        return ObjectStore(
            url,
            self.storage_options,
            policy=policy,
            observer=observer,
            rate_limit=rate_limit,
            options=self.tuned,
        )


@dataclass(frozen=True, slots=True)
class TierOptions:
    """How to reach a tier.

    Attributes:
        reach: How to reach the store it is in.
        plugin: The layout, by its name or as ``module:Class``; None to detect it.
        plugin_options: Options of the layout.
        keeps_indexes: Whether indexes may be cached on this machine.
    """

    reach: StoreOptions
    plugin: str | None
    plugin_options: Mapping[str, object] | None = field(repr=False)
    keeps_indexes: bool = True

    def tier(
        self,
        url: str,
        observer: RequestObserver | None = None,
        *,
        is_cached: bool = True,
    ) -> Tier:
        """Open the tier at ``url``, in the named or the detected layout.

        Args:
            url: Where it is.
            observer: Sees the requests.
            is_cached: Whether indexes may come from the cache, not from the store.
        """
        address = self._address(url)
        store = self._store(address, observer)
        storage = open_storage(store, address.plugin, address.plugin_options)
        is_kept = is_cached and self.keeps_indexes
        return Tier(cached(storage) if is_kept else storage)

    def target(
        self,
        url: str,
        observer: RequestObserver | None = None,
        *,
        compression: str | None = None,
        dry_run: bool = False,
        rate_limit: RateLimit | None = None,
    ) -> RemoteStorageManager:
        """Open ``url`` for writing, in the native layout if it is empty.

        Args:
            url: Where it is.
            observer: Sees the requests.
            compression: How logs are stored from now on; None for the value in the
                layout's options.
            dry_run: Whether nothing is written.
            rate_limit: The rate at which objects are sent.

        Raises:
            NotFoundError: The bucket or container of ``url`` does not exist.
            UnsupportedOperationError: The layout cannot compress logs.
            InvalidArgumentError: Its options contain another compression.
        """
        address = self._address(url)
        other = address.plugin_options.get("compression", compression)
        if compression is not None and other != compression:
            msg = f"--compression {compression}, but {other!r} in the plugin options"
            raise InvalidArgumentError(msg)
        store = self._store(address, observer, rate_limit)
        if dry_run:
            store = DryRunStore.over(store)
        storage = _open_target(store, address)
        if compression is None:
            return storage
        return compressed(storage, compression, address.plugin_options)

    def _store(
        self,
        address: StorageAddress,
        observer: RequestObserver | None = None,
        rate_limit: RateLimit | None = None,
    ) -> ObjectStore:
        reach = replace(self.reach, storage_options=address.storage_options)
        return reach.store(address.url, observer, rate_limit)

    def _address(self, url: str) -> StorageAddress:
        return StorageAddress.of(
            url,
            storage_options=self.reach.storage_options,
            plugin=self.plugin,
            plugin_options=self.plugin_options,
        )


def _open_target(store: ObjectStore, address: StorageAddress) -> RemoteStorageManager:
    if address.plugin is not None:  # never replaced by another one
        storage = open_storage(store, address.plugin, address.plugin_options)
        check_target(storage)
        return storage
    try:
        return open_storage(store, options=address.plugin_options)
    except NotFoundError:
        _check_container(store)
        return open_storage(store, NATIVE_LAYOUT, address.plugin_options)


def _check_container(store: ObjectStore) -> None:
    """Check that objects can be put at a URL that may be empty.

    Raises:
        NotFoundError: Its bucket, container or archive does not exist.
    """
    next(store.list(), None)


def store_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options for reaching a store to a command, as ``options``."""

    @quiet_option
    @click.option(
        "--storage-options",
        type=JsonObject(),
        metavar="JSON",
        help="fsspec's options for the URL, such as credentials. fsspec's own "
        "configuration files and environment are used as well.",
    )
    @click.option(
        "--deadline",
        type=Seconds(),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="The longest that one remote call may take, retries included.",
    )
    @click.option(
        "--option",
        "chosen",
        type=NameAndValue(),
        multiple=True,
        metavar="NAME=VALUE",
        help="Tune a size or a limit; may be repeated, and bytes may end in K, M or G: "
        f"{', '.join(option_ranges())}.",
    )
    @wraps(command)
    def wrapped(
        *,
        storage_options: Mapping[str, object] | None,
        deadline: float,
        chosen: tuple[tuple[str, str], ...],
        **rest: object,
    ) -> object:
        options = StoreOptions(storage_options, deadline, Options.parse(dict(chosen)))
        with without_prints():
            return command(options=options, **rest)

    return wrapped


def tier_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options for reaching a tier to a command, as ``options``."""

    @store_options
    @click.option(
        "--plugin",
        metavar="NAME",
        help="The layout, or module:Class; detected by default.",
    )
    @click.option(
        "--plugin-options", type=JsonObject(), metavar="JSON", help="The layout's own."
    )
    @wraps(command)
    def wrapped(
        *,
        options: StoreOptions,
        plugin: str | None,
        plugin_options: Mapping[str, object] | None,
        **rest: object,
    ) -> object:
        return command(options=TierOptions(options, plugin, plugin_options), **rest)

    return wrapped


def cache_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add the option that disables the cache to a command that has ``options``."""

    @click.option(
        "--no-cache",
        is_flag=True,
        help="Cache no indexes on this machine, and use no cached ones.",
    )
    @wraps(command)
    def wrapped(*, options: TierOptions, no_cache: bool, **rest: object) -> object:
        return command(options=replace(options, keeps_indexes=not no_cache), **rest)

    return wrapped
