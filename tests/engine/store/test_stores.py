"""What every store does: replies are kept as they are, counted and pruned."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store.base import (
    VERSION,
    ModelReplies,
    Store,
    row_of,
)
from tests.support.stores import REPLY, get, put

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


def test_texts_are_kept_unchanged(store: Store) -> None:
    """Any key finds its own reply, any reply comes back unchanged, and any label can be looked up."""
    for text in HOSTILE:
        put(store, text, replace(REPLY, text=text, value=[text]), model=text)
    for text in HOSTILE:
        assert get(store, text) == replace(REPLY, text=text, value=[text], key=text)
        assert get(store, f"{text}x") is None
        assert store.holds_replies(text)
    assert len(store.info().models) == len(HOSTILE)


def test_many_replies_at_once(store: Store) -> None:
    """More replies than a statement takes are stored and found, in any order.

    The last reply under a key is returned, also after a clock was set back.
    """
    rows = [row_of(f"k{n}", "m", Reply(str(n), stored=1.0)) for n in range(230)]
    store.put_many([*rows, row_of("k7", "m", Reply("last", stored=0.5))])
    put(store, "k8", Reply("last", stored=0.5))
    texts = {key: reply.text for key, reply in store.get_many([f"k{n}" for n in range(240)]).items()}
    assert texts == {f"k{n}": str(n) for n in range(230)} | {"k7": "last", "k8": "last"}


def test_a_store_says_what_it_holds(store: Store) -> None:
    """The facts of a store are counted by model."""
    put(store, "a", Reply("x", stored=10.0), model="m1")
    put(store, "b", Reply("x", stored=30.0), model="m1")
    put(store, "c", Reply("x", stored=20.0), model="m2")
    info = store.info()
    assert info.models == [ModelReplies("m1", 2, 10.0, 30.0), ModelReplies("m2", 1, 20.0, 20.0)]
    assert info.version == VERSION
    assert info.size > 0
    assert (store.holds_replies("m1"), store.holds_replies("m")) == (True, False)


def test_old_replies_are_pruned(store: Store) -> None:
    """Replies from before a time are deleted, of all models or of one."""
    for key, stored, model in (("a", 1.0, "m1"), ("b", 2.0, "m1"), ("c", 1.0, "m2"), ("d", 1.0, "m3")):
        put(store, key, Reply("x", stored=stored), model=model)
    assert store.prune(before=2.0, model="m2") == 1
    assert store.prune(before=2.0, model=None) == 2
    assert store.get_many(["a", "b", "c", "d"]).keys() == {"b"}
