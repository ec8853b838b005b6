"""The lines of the summary about sentences: what an acceptance means, and what is accepted of null extractors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.choices import RULES
from pytest_llmprops.benchmarks.oracle.documents import document_remarks
from pytest_llmprops.benchmarks.oracle.linearity_settings import LinearitySettings, bound_of
from pytest_llmprops.benchmarks.oracle.sentence_metrics import null_remarks
from pytest_llmprops.core.records import VerdictRecord


def linearity_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield the bounds of sentences and documents, the null extractors, and how many tests could not fail."""
    tested = [r.values for r in records if r.values.get("tests")]
    for text in dict.fromkeys(bound_of(_settings_of(v)).text for v in tested):
        yield f"accepted sentences: {text}"
    yield from document_remarks(records)
    yield from null_remarks(tested)
    drawn = sum(v["tests"] for v in tested)
    vacuous = drawn - sum(v.get("informative_tests", v["tests"]) for v in tested)
    if vacuous:
        sentences = sum(v.get("no_informative_test", 0.0) for v in tested)
        yield (
            f"{vacuous:.0f} of {drawn:.0f} tests of linearity pass for every extractor (x = 0, y = 0 or x = y);"
            f" {sentences:.0f} of {len(tested)} sentences have no other test"
        )


def _settings_of(values: Mapping[str, float]) -> LinearitySettings:
    """Return the settings that the bound of a tested sentence depends on, from its values."""
    samples, rule = int(values["samples"]), RULES[int(values["rule"])]
    if "epsilon" in values:
        epsilon, delta = values["epsilon"], values["delta"]
        return LinearitySettings(samples=samples, rule=rule, draw="informative", epsilon=epsilon, delta=delta)
    return LinearitySettings(samples=samples, tests=int(values["tests"]), rule=rule)
