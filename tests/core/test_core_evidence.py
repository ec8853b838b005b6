"""The evidence of a verdict: reading it from any JSON, and showing it as lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import (
    evidence_texts,
    flag_in,
    object_in,
    objects_in,
    text_in,
    text_lists_in,
    without_empty,
)

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
ANY_JSON: st.SearchStrategy[JSON] = st.recursive(
    PLAIN, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
)


def test_texts_keep_their_lines_and_nested_values_are_indented() -> None:
    """A text keeps its lines, a short list is one line, and numbered objects have their keys as headings."""
    nested: JSON = {"passed": False, "x": {"sentence": "Rome is old.", "times": 3}}
    shown: dict[str, tuple[JSON, str]] = {
        "sentence": ("Oslo is old.\nLima is, too.", "Oslo is old.\nLima is, too."),
        "answers named": (["bank", "shore"], "bank, shore"),
        "accepted": (True, "yes"),
        "share": (0.5, "0.5"),
        "bound": (None, "-"),
        "tests": (
            [nested, {"passed": True}, "untested"],
            "1. passed: no\n   x:\n     sentence: Rome is old.\n     times: 3\n2. passed: yes\n3. untested",
        ),
        "nothing": ([], ""),
    }
    evidence = {name.replace(" ", "_"): value for name, (value, _) in shown.items()}
    assert evidence_texts(evidence) == [(name, text) for name, (_, text) in shown.items()]
    # Texts that do not fit on one line, or contain line breaks, are numbered.
    texts = ["a" * 60, "b" * 60]
    assert evidence_texts({"texts": texts}) == [("texts", f"1. {texts[0]}\n2. {texts[1]}")]
    assert evidence_texts({"texts": ["a\nb", "c"]}) == [("texts", "1. a\n   b\n2. c")]


@given(st.dictionaries(st.text(max_size=5), ANY_JSON, max_size=2))
@settings(max_examples=50)
def test_any_evidence_can_be_shown(evidence: dict[str, JSON]) -> None:
    """Evidence with any JSON values can be shown, and no text in it is lost."""
    for (_, text), value in zip(evidence_texts(evidence), evidence.values(), strict=True):
        assert not isinstance(value, str) or text == value


@given(ANY_JSON)
def test_value_of_the_wrong_type_is_missing(value: JSON) -> None:
    """A reader returns a value of its type or nothing; it never raises."""
    evidence = {"key": value}
    assert text_in(evidence, "key") == (value if isinstance(value, str) else "")
    assert flag_in(evidence, "key") == (value if isinstance(value, bool) else None)
    assert all(isinstance(text, str) for texts in text_lists_in(evidence, "key") for text in texts)
    assert all(isinstance(part, dict) for part in (*objects_in(evidence, "key"), object_in(evidence, "key")))


def test_other_values_are_left_out() -> None:
    """Values of other types are dropped from a list, whose texts keep their position; empty values are dropped."""
    mixed: dict[str, JSON] = {"key": ["a", 1, ["b", 2], {"c": 3}, None]}
    assert text_lists_in(mixed, "key") == ((), (), ("b",), (), ())
    assert objects_in(mixed, "key") == ({"c": 3},)
    assert without_empty({"a": "", "b": [], "c": {}, "d": None, "e": False, "f": 0}) == {"e": False, "f": 0}
