"""Named protocols with overrides, seeded generators, and verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, Optional

import pytest

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import NamedSettings, Protocol, generator, resolve
from pytest_llmprops.core.verdicts import Verdict, record_of


@dataclass(frozen=True, slots=True)
class ExampleSettings:
    """One field of every type that a setting can have."""

    k: int = 14
    temperature: float = 0.7
    cot: bool = False
    match: Literal["contains", "word"] = "word"
    shots: Literal[4, 14] = 14
    most: int | None = 3
    name: Optional[str] = "x"  # noqa: UP045 - the old spelling must work too

    def __post_init__(self) -> None:
        if self.k % 2:
            raise ValueError("k must be even")


NAMED = {
    "paper": NamedSettings(ExampleSettings(k=50), assumed=("order of examples",)),
    "quick": NamedSettings(ExampleSettings(), gives_up="precision"),
}


def resolved(protocol: str = "quick", /, **overrides: str) -> Protocol[ExampleSettings]:
    """Return the protocol with ``--llm-set bench.NAME=VALUE`` for each override."""
    return resolve("bench", NAMED, protocol, overrides, seed=7)


def test_override_has_the_type_of_its_field() -> None:
    """A value is parsed as its field's type and recorded as parsed; the other fields are unchanged."""
    for field, text, value in (
        ("k", "28", 28), ("temperature", "0", 0.0), ("cot", "true", True), ("cot", "Yes", True), ("cot", "0", False),
        ("match", "contains", "contains"), ("shots", "4", 4), ("most", "none", None), ("name", "none", None),
        ("name", "abc", "abc"),
    ):  # fmt: skip
        protocol = resolved(**{field: text})
        got = getattr(protocol.settings, field)
        assert (got, type(got)) == (value, type(value))
        assert protocol.overrides == {field: value}
        assert asdict(protocol.settings) == asdict(ExampleSettings()) | {field: value}


def test_wrong_override_is_one_line_that_names_it() -> None:
    """A value of the wrong type or an unknown field gives the option as typed and the allowed values."""
    for field, text, says in (
        ("k", "many", "of type int"),
        ("temperature", "warm", "of type float"),
        ("temperature", "nan", "a finite number"),
        ("cot", "maybe", "true or false"),
        ("match", "fuzzy", "one of contains, word"),
        ("shots", "5", "one of 4, 14"),
        ("depth", "3", "the settings are k, temperature, cot, match, shots, most, name"),
    ):
        with pytest.raises(UsageError, match=f"^--llm-set bench.{field}={text}: [^\n]*{says}[^\n]*$"):
            resolved(**{field: text})
    with pytest.raises(UsageError, match="--llm-set bench: k must be even"):
        resolved(k="3")
    with pytest.raises(UsageError, match="--llm-protocol slow: bench has paper, quick"):
        resolved("slow")


def test_protocol_records_what_defines_the_measurement() -> None:
    """The record contains name, settings, seed, assumptions and overrides."""
    assert resolved("paper", cot="yes").to_json() == {
        "name": "paper",
        "settings": {
            "k": 50, "temperature": 0.7, "cot": True, "match": "word", "shots": 14, "most": 3, "name": "x",
        },
        "seed": 7,
        "assumed": ["order of examples"],
        "gives_up": "",
        "overrides": {"cot": True},
    }  # fmt: skip
    assert resolved().gives_up == "precision"


def test_generators_differ_by_every_part_of_the_key() -> None:
    """A different seed, item id or test index gives different numbers; the same key gives the same in every process."""
    keys = [(seed, item, index) for seed in range(4) for item in ("a", "b", "a1") for index in (0, 1, 10, 11)]
    draws = [tuple(generator(*key).random() for _ in range(3)) for key in keys]
    assert len(set(draws)) == len(keys)
    assert [generator(*key).random() for key in keys] == [draw[0] for draw in draws]
    protocol = resolved()
    assert protocol.rng("a", 1).random() == generator(7, "a", 1).random()
    assert generator(0, "htest/rhyme/0001", 2).random() == 0.4682124390536291


def test_verdict_of_a_check() -> None:
    """A check is correct with score 1 or wrong with score 0; its answers need no reason."""
    right = Verdict.check(True, expected="A", given="A", values={"format": 1.0})
    wrong = Verdict.check(False, expected="A", given="B", reason="because")
    assert (right.status, right.score, right.reason, bool(right)) == ("correct", 1.0, "", True)
    assert (wrong.status, wrong.score, wrong.reason, bool(wrong)) == ("wrong", 0.0, "because", False)
    assert (right.values, wrong.expected, wrong.given) == ({"format": 1.0}, "A", "B")


def test_record_of_a_case_without_verdict_is_an_error() -> None:
    """An error has no score, keeps its reason, and differs from every verdict."""
    item = Item("b/1", "t", "en", cluster="c")
    broken = record_of(item, "bench", "m", None, requests=[], error="status 500")
    assert (broken.status, broken.score, broken.reason) == ("error", None, "status 500")
    verdict = Verdict("unparsed", "A", "", "empty", values={"x": 2.0})
    good = record_of(item, "bench", "m", verdict, requests=["k"], error="ignored", sample=3)
    assert (good.status, good.score, good.reason, good.values) == ("unparsed", 0.0, "empty", {"x": 2.0})
    assert (good.cluster, good.requests, good.sample) == ("c", ("k",), 3)


def test_backend_errors_cross_processes_unchanged() -> None:
    """An error rebuilt from its plain form equals the original in every field."""
    error = BackendError("wait", kind="status 429", transient=True, fatal=False, retry_after=1.5)
    again = BackendError.from_json(json.loads(json.dumps(error.to_json())))
    assert again.to_json() == error.to_json()
    assert str(again) == "wait"
