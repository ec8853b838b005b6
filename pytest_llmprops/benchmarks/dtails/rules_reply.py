"""Read a model's rules for one concept from its reply: strict JSON with one string per variation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.dtails.prompts import Variations, variation_name
from pytest_llmprops.benchmarks.dtails.reading import FENCE
from pytest_llmprops.benchmarks.dtails.text import folded
from pytest_llmprops.core.strict_json import is_unicode, short, strict_json

#: Maximum characters of a rule. A rule is a few sentences and is in every prompt of its concept.
LONGEST_RULE = 4_000


@dataclass(frozen=True, slots=True)
class RulesReply:
    """A model's reply read as rules: ``texts`` by variation name, or the ``problem`` in a short phrase.

    :param fenced: The JSON was between code fences, although only JSON was asked for.
    """

    texts: Mapping[str, str] | None
    problem: str = ""
    fenced: bool = False


def read_rules_reply(reply: str, variations: Variations) -> RulesReply:
    """Read rules from a reply: one JSON object, optionally between code fences, with one string per variation.

    Keys are compared folded (``text.folded``), because models drop zero-width joiners. The result has the names of
    ``variations`` as keys.
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
    remaining = dict(data)
    values: dict[str, Any] = {}
    # Exact matches come first, because two variations may be equal after folding.
    for normalise in (str, folded):
        for name in names:
            key = next((key for key in remaining if normalise(key) == normalise(name)), None)
            if name not in values and key is not None:
                values[name] = remaining.pop(key)
    missing = [name for name in names if name not in values]
    if missing:
        return f"the key {short(missing[0])} is missing", {}
    if remaining:
        return f"the key {short(next(iter(remaining)))} was not asked for", {}
    for name, value in values.items():
        if not isinstance(value, str) or not value.strip():
            return f"the value of {short(name)} is not a text", {}
        if not is_unicode(value):
            return f"the value of {short(name)} has half a surrogate pair", {}
        if len(value) > LONGEST_RULE:
            return f"the value of {short(name)} is longer than {LONGEST_RULE} characters", {}
    return "", {name: values[name].strip() for name in names}
