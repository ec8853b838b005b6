"""What every store does: replies are kept as they are, and each request has one owner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store.base import (
    LEASE_SECONDS,
    VERSION,
    ModelReplies,
    Store,
    host_name,
    row_of,
)
from tests.support.stores import REPLY, age_claims, get, move_claims_to, put

#: texts that break statements that are put together carelessly, or that a database cannot keep as they are
HOSTILE = [
    "'; DROP TABLE replies; --",
    '"quoted" \\ back',
    "nul \0 inside",
    "lone \ud800 surrogate",
    "x" * 100_000,
    "%s {} $1 ?",
    "键",
    "",
]


def test_stored_reply_is_complete(store: Store) -> None:
    """Every part of a reply is stored; the next request gets it, marked as cached."""
    put(store, "k", REPLY)
    assert get(store, "k") == REPLY
    assert get(store, "other") is None


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_kept_unchanged(store: Store, text: str) -> None:
    """Any key finds its own reply, any reply comes back unchanged, and any label can be looked up."""
    put(store, text, replace(REPLY, text=text, value=[text]), model=text)
    put(store, "other", REPLY, model="other")
    assert get(store, text) == replace(REPLY, text=text, value=[text], key=text)
    assert get(store, f"{text}x") is None
    assert store.holds_replies(text)
    assert store.claim([f"{text}!"]) == {f"{text}!"}
    store.release([f"{text}!"])
    assert store.info().claims == 0
    assert len(store.info().models) == 2


def test_many_replies_at_once(store: Store) -> None:
    """More replies than a statement takes are stored and found, in any order and with a key twice."""
    rows = [row_of(f"k{n}", "m", Reply(str(n), stored=1.0)) for n in range(230)]
    store.put_many([*rows, row_of("k7", "m", Reply("last", stored=1.0))])
    found = store.get_many([f"k{n}" for n in range(240)])
    assert {key: reply.text for key, reply in found.items()} == {f"k{n}": str(n) for n in range(230)} | {
        "k7": "last"
    }


def test_the_last_reply_replaces_those_before(store: Store) -> None:
    """The last reply under a key is returned, also after a clock was set back."""
    put(store, "k", Reply("first", stored=2.0))
    put(store, "k", Reply("last", stored=1.0))
    reply = get(store, "k")
    assert reply is not None
    assert reply.text == "last"


def test_a_request_has_one_owner(opened: Callable[[], Store]) -> None:
    """A claim is exclusive until its reply is stored, it is released, or its process ends."""
    one, two = opened(), opened()
    assert one.claim(["a", "b", "c"]) == {"a", "b", "c"}
    assert one.claim(["a"]) == {"a"}
    assert two.claim(["a", "b", "c", "d"]) == {"d"}
    assert two.info().claims == 4
    assert two.info().runs == 2
    put(one, "a", REPLY)
    one.release(["b", "d"])
    assert two.claim(["a", "b", "c"]) == {"a", "b"}
    assert one.claim(["d"]) == set()
    one.close()
    assert two.claim(["c"]) == {"c"}
    two.close()


@pytest.mark.parametrize("late", [True, False])
def test_a_claim_ends_with_its_lease(opened: Callable[[], Store], location: str, late: bool) -> None:
    """A process that has not reported for a minute loses its claims; one that reports in time keeps them."""
    one, two = opened(), opened()
    one.claim(["a"])
    age_claims(location, LEASE_SECONDS + 1 if late else LEASE_SECONDS - 10)
    assert two.claim(["a"]) == ({"a"} if late else set())
    # The first one was only suspended. It goes on, but the request belongs to the other.
    one.beat()
    assert one.claim(["a"]) == (set() if late else {"a"})
    put(one, "a", REPLY)
    assert two.info().claims == (1 if late else 0)


def test_claims_of_a_killed_process_end_at_once(opened: Callable[[], Store], location: str) -> None:
    """On the same machine, the next process removes the claims of one that was killed."""
    one, two, three = opened(), opened(), opened()
    one.claim(["a"])
    move_claims_to(location, host_name(), 2**22 + 1)
    assert two.claim(["a", "b"]) == {"a", "b"}
    move_claims_to(location, "another machine", 2**22 + 1)
    assert three.claim(["a"]) == set()


def test_claims_of_a_killed_process_end_before_its_parent_notices(
    opened: Callable[[], Store], location: str
) -> None:
    """A killed process keeps its number until its parent asks for its status; its claims end before that."""
    one, two = opened(), opened()
    one.claim(["a"])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        move_claims_to(location, host_name(), owner.pid)
        assert two.claim(["a"]) == set()
        owner.kill()
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
        assert opened().claim(["a"]) == {"a"}


def test_a_store_says_what_it_holds(store: Store) -> None:
    """The facts of a store are counted by model."""
    put(store, "a", Reply("x", stored=10.0), model="m1")
    put(store, "b", Reply("x", stored=30.0), model="m1")
    put(store, "c", Reply("x", stored=20.0), model="m2")
    info = store.info()
    assert info.models == [ModelReplies("m1", 2, 10.0, 30.0), ModelReplies("m2", 1, 20.0, 20.0)]
    assert (info.version, info.runs, info.claims) == (VERSION, 0, 0)
    assert info.size > 0
    assert (store.holds_replies("m1"), store.holds_replies("m")) == (True, False)


def test_old_replies_are_pruned(store: Store) -> None:
    """Replies from before a time are deleted, of all models or of one."""
    for key, stored, model in (("a", 1.0, "m1"), ("b", 2.0, "m1"), ("c", 1.0, "m2"), ("d", 1.0, "m3")):
        put(store, key, Reply("x", stored=stored), model=model)
    assert store.prune(before=2.0, model="m2") == 1
    assert store.prune(before=2.0, model=None) == 2
    assert store.get_many(["a", "b", "c", "d"]).keys() == {"b"}


def test_changed_lists_of_models_are_noticed(opened: Callable[[], Store]) -> None:
    """The first list of a server has no age; a changed one counts from now, for every run with the store."""
    one, two = opened(), opened()
    assert one.listed_since("http://s", "list 1") == 0.0
    assert two.listed_since("http://s", "list 1") == 0.0
    since = two.listed_since("http://s", "list 2")
    assert since > 1e9
    assert one.listed_since("http://s", "list 2") == since
