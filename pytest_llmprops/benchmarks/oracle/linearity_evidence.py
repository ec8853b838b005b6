"""Texts that show a person how a sentence was tested for linearity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import Samples, most_frequent
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym


def entity_lines(answer: Sequence[Entity], chosen: Sequence[Synonym]) -> str:
    """A line for each entity of the answer: its class, and its replacement or why it has none."""
    by_key = {synonym.entity.key: synonym for synonym in chosen}
    lines = []
    for entity in answer:
        synonym = by_key.get(entity.key)
        what = f"{entity.kind}: {entity.name}" if entity.kind else entity.name
        if synonym is None:
            fate = {"not_literal": "not in the sentence", "contained": f"inside {entity.inside!r}"}
            lines.append(f"{what} ({fate.get(entity.state, 'not tested')})")
        elif synonym.text:
            named = "named" if synonym.entity.named else "not named"
            lines.append(f"{what} -> {synonym.text} ({named}, {synonym.how}; {synonym.decided_by})")
        else:
            refused = "; ".join(f"{text!r}: {why}" for text, why in synonym.rejected[:5])
            lines.append(f"{what} (no replacement{': ' + refused if refused else ''})")
    return "\n".join(lines)


def test_texts(tests: Sequence[OneTest], samples: Mapping[int, Samples], subject: Subject) -> dict[str, str]:
    """A text for each test: its three sentences, and what was extracted from each how often."""
    texts = {}
    for number, test in enumerate(tests, 1):
        lines = [f"{'passed' if test.passed else 'failed'}, {test.passing} of {test.total} combinations"]
        for label, x in (("x", test.x), ("y", test.y), ("x+y", test.x ^ test.y)):
            names, times = most_frequent(samples[x].sets)
            read = f"{times} of {len(samples[x].readings)}: {', '.join(sorted(names)) or 'none'}"
            lines += [f"{label}: {samples[x].text}", f"   {read if times else 'no reply could be read'}"]
        texts[f"test {number}"] = "\n".join(lines)
    return texts
