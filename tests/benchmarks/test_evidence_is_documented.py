"""Every key of every benchmark's evidence is documented in ``docs/record.md``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from pytest_llmprops.benchmark_registry import benchmark_names
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.runs.reader import read_run
from tests.support import dtails_runs, oracle_runs
from tests.support.runs import Runner

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
#: keys that every benchmark may have
COMMON = {"read_by", "other_reading"}


def keys(value: JSON) -> Iterator[str]:
    """Return all keys of an evidence object, including nested ones."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield key
            yield from keys(part)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from keys(part)


def documented(heading: str) -> set[str]:
    """Return the keys that the page lists under ``heading``."""
    section = re.split(r"^##+ ", PAGE.split(f"# {heading}\n")[1], flags=re.M)[0]
    return set(re.findall(r"`([^`]+)`", section))


def written(records: Sequence[VerdictRecord]) -> set[str]:
    """Return the keys in these records' evidence, without those that every benchmark may have."""
    return {key for record in records for key in keys(record.evidence)} - COMMON


def test_headings_and_common_keys() -> None:
    """The page has a heading for every benchmark, the fields of a verdict, and the keys of how a reply was read."""
    assert documented("Evidence") >= COMMON
    assert {field.name for field in fields(VerdictRecord)} <= documented("verdicts.jsonl")
    assert all(f"\n### {name}\n" in PAGE for name in benchmark_names())


def test_htest_homophones_and_eras(run: Runner) -> None:
    """A run of these three has only documented keys: the end of H-TEST's reasoning, and ERAS's implicit sentences."""
    suites = [str(ROOT / "suites" / f"test_{name}.py") for name in ("htest", "homophones", "eras")]
    model = "fake:constant?text=A"
    done = run(
        *suites, "--rootdir", str(run.folder), "--model", model, "--llm-helper", f"reader={model}",
        "--llm-limit", "1", "--llm-set", "htest.cot=true",
    )  # fmt: skip
    records = read_run(done.folder).records
    expected = {"htest": {"chain_of_thought"}, "homophones": set(), "eras": {"test", "control"}}
    for name, names in expected.items():
        own = [record for record in records if record.benchmark == name]
        assert own, done.output
        assert written(own) == names
        assert names <= documented(name)


def test_dtails(tmp_path: Path) -> None:
    """Choices with rules and a clue, and translations with a reference, have exactly the documented keys."""
    more = {"clue": ("know",), "target": "Ek weet."}
    asked = [
        replace(item, fields={**item.fields, **more})
        for item in dtails_runs.items("know", ("weet", "ken"), ["weet"], tasks=("select", "translate"))
    ]
    model = {"m": dtails_runs.with_rules(dtails_runs.takes(1))}
    examples = {"dtails/af/know": {"weet": ("I know.",)}}
    run = dtails_runs.measure(tmp_path / "run", asked, model, rules="self", sentences=examples)
    keys = written(read_run(run).records)
    assert keys <= documented("dtails")
    assert keys >= {
        "concept", "sentence", "variations", "shown", "rules", "clue", "variation", "rule", "sentences", "translation",
        "reference", "tokenizer",
    }  # fmt: skip


def test_oracle(tmp_path: Path) -> None:
    """Sentences, pairs and sanity checks have exactly the documented keys."""
    dogs, cats = "red dogs barked loudly last night.", "last night red dogs barked loudly."
    texts = ["Then Oslo wrote to Lima about Quito.", "Long ago Oslo was small."]
    alike, other = oracle_runs.pair(dogs, cats, 1), oracle_runs.pair(dogs, "cats slept.", 2, label=False)
    asked = [
        *(oracle_runs.sentence(text, number) for number, text in enumerate(texts, 1)),
        alike, other, oracle_runs.control(alike, "own_paraphrase"), oracle_runs.control(alike, "consistency"),
    ]  # fmt: skip
    models = {
        "first": oracle_runs.Subject(
            lambda text, _: ["city: Atlantis", *oracle_runs.capitalised(text)[: 1 + ("Oslo" in text)]],
            lambda first, second: "slept" not in second,
            lambda text: [cats, dogs],
        ),
        "second": oracle_runs.Subject(
            same=lambda first, second: first == second, paraphrases=lambda text: []
        ),
    }
    records = read_run(oracle_runs.measure(tmp_path / "run", asked, models, tests=20, phrases="all")).records
    keys = written(records)
    assert keys <= documented("oracle")
    assert keys >= {
        "entities", "left_out", "replacement", "culprits", "x+y", "bound", "phrases", "trust", "answers",
    }  # fmt: skip
