"""Uploads in parts of objects that a test can afford."""

from copy import copy
from dataclasses import replace
from typing import Any

from tieredfs import ObjectStore

__all__ = ["upload_in_parts"]


def upload_in_parts(store: ObjectStore, *, above: int, **config: Any) -> None:  # noqa: ANN401 - fields of a MultipartConfig
    """Upload objects of more than ``above`` bytes in parts.

    Args:
        store: A store whose backend takes parts.
        above: Bytes; fewer than the option allows.
        config: What the parts are like: fields of a MultipartConfig.
    """
    requests = store._requests
    options = copy(requests.options)  # which, unlike replace, allows fewer
    object.__setattr__(options, "multipart_threshold_bytes", above)
    store._requests = replace(requests, options=options)
    backend = requests.backend("", "")
    assert backend.parts is not None
    backend.parts = replace(backend.parts, **config)  # type: ignore[misc] # for this test
