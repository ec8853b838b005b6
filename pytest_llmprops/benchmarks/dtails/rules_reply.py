"""A model's rules for one concept, read from its reply: strict JSON, a text for each variation and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.dtails.prompts import Variations, variation_name
from pytest_llmprops.benchmarks.dtails.reading import FENCE
from pytest_llmprops.benchmarks.dtails.text import folded
from pytest_llmprops.core.strict_json import is_unicode, short, strict_json

#: longest rule that is taken: a rule is a few sentences, and goes into every prompt of its concept
LONGEST_RULE = 4_000


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
