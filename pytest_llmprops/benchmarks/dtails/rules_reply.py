"""A model's rules for one concept, read from its reply: strict JSON, a text for each variation and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.dtails.prompts import Variations, variation_name
from pytest_llmprops.benchmarks.dtails.reading import FENCE
from pytest_llmprops.benchmarks.dtails.text import folded

#: longest rule that is taken: a rule is a few sentences, and goes into every prompt of its concept
LONGEST_RULE = 4_000
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class RulesReply:
    """A model's reply read as rules: ``texts`` by variation name, or the ``problem`` in one phrase.

    :param fenced: the JSON stood between fences, though only JSON was asked for.
    """

    texts: Mapping[str, str] | None
    problem: str = ""
    fenced: bool = False


def read_rules_reply(reply: str, variations: Variations) -> RulesReply:
    """Rules from a model's reply: one JSON object, bare or between fences, a non-empty string a variation.

    Keys are compared folded (``text.folded``), as models drop zero-width joiners; those kept are ours.
    """
    text = reply.strip()
    parts = text.split(FENCE)
    fenced = len(parts) == 3 and not parts[0].strip() and not parts[2].strip()
    if fenced:
        text = parts[1].strip()
        label, _, rest = text.partition("\n")
        text = rest if label.strip().casefold() == "json" else text
    problem, texts = _reply_texts(text, [variation_name(forms) for forms in variations])
    return RulesReply(None if problem else texts, problem, fenced)


def _reply_texts(text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    try:
        data = strict_json(text)
    except ValueError as error:
        return f"it is not JSON ({error})" if text else "it is empty", {}
    if not isinstance(data, dict):
        return "it is not a JSON object", {}
    given = dict(data)
    found: dict[str, Any] = {}
    # As written first: two variations may be equal once folded.
    for alike in (str, folded):
        for name in names:
            key = next((key for key in given if alike(key) == alike(name)), None)
            if name not in found and key is not None:
                found[name] = given.pop(key)
    missing = [name for name in names if name not in found]
    if missing:
        return f"the key {short(missing[0])} is missing", {}
    if given:
        return f"the key {short(next(iter(given)))} was not asked for", {}
    for name, value in found.items():
        if not isinstance(value, str) or not value.strip():
            return f"the value of {short(name)} is not a text", {}
        if not is_unicode(value):
            return f"the value of {short(name)} has half a surrogate pair", {}
        if len(value) > LONGEST_RULE:
            return f"the value of {short(name)} is longer than {LONGEST_RULE} characters", {}
    return "", {name: found[name].strip() for name in names}


def strict_json(text: str) -> Any:
    """One JSON document. :raises ValueError: in one line, for anything else, a key that stands twice, NaN."""
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_unicode(text: str) -> bool:
    """No lone surrogate, which JSON can spell and no UTF-8 file can hold."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _no_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {short(next(key for key in keys if keys.count(key) > 1))} stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def short(text: str) -> str:
    """For messages: one line, not long, everything unprintable as an escape."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
