"""A server that takes connections and never reads from them is waited for no longer."""

from functools import partial

import pytest

from objects.watched import CALLS, quick
from servers import ProxiedBucket
from support.deadlines import assert_all_end_by
from support.events import Events
from support.stores import CLOUDS
from tieredfs import DeadlineExceededError, ErrorKind, ObjectStore, RequestPolicy

LIMIT = 2.5

pytestmark = pytest.mark.parametrize("proxied", CLOUDS, indirect=True)


def fail(store: ObjectStore, verb: str) -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        CALLS[verb](store)
    assert store.url in str(caught.value)


def test_every_call_of_a_store_that_was_connected_ends_by_the_deadline(
    proxied: ProxiedBucket,
) -> None:
    events = Events()
    store = quick(proxied, events, deadline=LIMIT)
    proxied.proxy.silent = True
    proxied.proxy.drop_connections()
    took = assert_all_end_by(LIMIT, [partial(fail, store, verb) for verb in CALLS])
    assert min(took) >= LIMIT
    assert {event.outcome for event in events} == {ErrorKind.DEADLINE_EXCEEDED}
    assert not proxied.proxy.requests()


def test_every_call_of_a_store_that_was_never_connected_ends_by_the_deadline(
    proxied: ProxiedBucket,
) -> None:
    url, options, proxy = proxied
    store = ObjectStore(url, options, policy=RequestPolicy(deadline=LIMIT))
    proxy.silent = True
    took = assert_all_end_by(LIMIT, [partial(fail, store, verb) for verb in CALLS])
    assert min(took) >= LIMIT
    proxy.silent = False
    proxy.drop_connections()
    hopeful = store.with_policy(RequestPolicy())
    hopeful.put("key", b"1", overwrite=True)
    assert hopeful.get("key") == b"1"
