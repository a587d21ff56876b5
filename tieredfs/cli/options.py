"""Options that several commands have, and what they make: a store, a tier."""

import json
from collections.abc import Callable, Mapping
from functools import wraps

import click

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects import ObjectStore, RequestObserver, RequestPolicy
from tieredfs.storage import open_storage, split_plugin_url
from tieredfs.tier import Tier

__all__ = ["JsonObject", "StoreOptions", "json_option", "store_options"]

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
        """Parse it; the value itself is not shown, for it may hold secrets."""
        try:
            parsed = json.loads(str(value))
        except json.JSONDecodeError as error:
            self.fail(f"not JSON: {error.msg} at character {error.pos}", param, ctx)
        if not isinstance(parsed, dict):
            self.fail("not a JSON object", param, ctx)
        return parsed


class StoreOptions:
    """How to reach a store: what the shared options were set to."""

    def __init__(
        self,
        storage_options: Mapping[str, object] | None,
        plugin: str | None,
        plugin_options: Mapping[str, object] | None,
        deadline: float,
    ) -> None:
        """Take the options as they were parsed."""
        self.storage_options = storage_options
        self.plugin = plugin
        self.plugin_options = plugin_options
        self.deadline = deadline

    def store(self, url: str, observer: RequestObserver | None = None) -> ObjectStore:
        """Return the object store at ``url``."""
        policy = RequestPolicy(deadline=self.deadline)
        return ObjectStore(url, self.storage_options, policy=policy, observer=observer)

    def tier(self, url: str, observer: RequestObserver | None = None) -> Tier:
        """Open what is at ``url``, in the layout that is named or found."""
        named, plain = split_plugin_url(url)
        if named and self.plugin and named != self.plugin:
            msg = f"the URL names plugin {named!r}, --plugin names {self.plugin!r}"
            raise InvalidArgumentError(msg)
        store = self.store(plain, observer)
        return Tier(open_storage(store, self.plugin or named, self.plugin_options))


def store_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options that say how to reach a store, as ``options``."""

    @click.option(
        "--storage-options",
        type=JsonObject(),
        metavar="JSON",
        help="fsspec's options for the URL, such as credentials. fsspec's own "
        "configuration files and environment are used as well.",
    )
    @click.option("--plugin", metavar="NAME", help="The layout; found out when left.")
    @click.option(
        "--plugin-options", type=JsonObject(), metavar="JSON", help="The layout's own."
    )
    @click.option(
        "--deadline",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="The longest that one remote call may take, retries included.",
    )
    @wraps(command)
    def wrapped(
        *,
        storage_options: Mapping[str, object] | None,
        plugin: str | None,
        plugin_options: Mapping[str, object] | None,
        deadline: float,
        **rest: object,
    ) -> object:
        options = StoreOptions(storage_options, plugin, plugin_options, deadline)
        return command(options=options, **rest)

    return wrapped
