"""The evidence that a recorded verdict keeps of each DTAiLS item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.evidence import LONGEST, SelectionEvidence, TranslationEvidence
from pytest_llmprops.benchmarks.dtails.rules import Rule
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.runs.reader import read_run
from tests.support.dtails_runs import Answer, items, knows, measure, takes, with_rules
from tests.support.runs import Runner

NAMES = ("weet", "ken/kan")
KNOW = items("know", NAMES, ["weet", "ken/kan", "weet"])
TRANSLATED = items("know", NAMES, ["weet", "ken/kan", "weet"], tasks=("translate",))
SENTENCES = {"dtails/af/know": {"weet": ("I know that.", "They know."), "ken/kan": ()}}
TEXTS = st.text(max_size=20)


def selections(folder: Path) -> list[tuple[VerdictRecord, SelectionEvidence]]:
    """Return every record of a run that has evidence."""
    return [(record, SelectionEvidence.from_json(record.evidence)) for record in read_run(folder).records]


def always(text: str) -> Answer:
    """A model that always replies with ``text``."""
    return lambda _: text


def stumbles(answer: Answer) -> Answer:
    """A variant of the model that follows the template only on the retry."""
    return lambda request: answer(request) if "with 3 back ticks" in request.prompt else "Well."  # type: ignore[union-attr]


def test_the_order_of_every_run_is_kept(tmp_path: Path) -> None:
    """The evidence has each run's order, which with the position gives the variation chosen."""
    records = selections(measure(tmp_path / "run", KNOW, {"m": takes(1)}, runs=5))
    for record, evidence in records:
        assert (evidence.concept, evidence.variations) == ("know", NAMES)
        assert evidence.sentence.endswith(f"{record.expected}.")
        assert [set(shown) for shown in evidence.shown] == [set(NAMES)] * 5
        chosen = [
            shown[int(record.values[f"run{n}_position"]) - 1] for n, shown in enumerate(evidence.shown, 1)
        ]
        right = [bool(record.values[f"run{n}_right"]) for n in range(1, 6)]
        assert [name == record.expected for name in chosen] == right
    assert len({shown for _, evidence in records for shown in evidence.shown}) == 2


def test_evidence_has_no_replies(tmp_path: Path) -> None:
    """The evidence has no reply, also after a retry, and the values say that there was a retry."""
    for record, evidence in selections(measure(tmp_path / "run", KNOW, {"m": stumbles(takes(2))}, runs=2)):
        assert [record.values[f"run{n}_retried"] for n in (1, 2)] == [1.0, 1.0]
        assert len(evidence.shown) == 2
        assert set(record.evidence) == {"concept", "sentence", "variations", "shown"}


def test_own_rules_with_their_sentences(tmp_path: Path) -> None:
    """The rules of the right and the chosen variation are kept with their numbers of sentences."""
    folder = measure(
        tmp_path / "run", KNOW, {"m": with_rules(knows(KNOW))}, rules="self", sentences=SENTENCES
    )
    known = {name: Rule(name, f"when it is {name}", n) for name, n in (("weet", 2), ("ken/kan", 0))}
    for record, evidence in selections(folder):
        assert evidence.rules == (known[record.expected],)
    folder = measure(
        tmp_path / "two", KNOW, {"m": with_rules(takes(1))}, rules="self", runs=8, sentences=SENTENCES
    )
    assert [evidence.rules for _, evidence in selections(folder)] == [tuple(known.values())] * 3


def test_rules_of_a_file(tmp_path: Path) -> None:
    """Rules from a file are kept with the numbers of sentences given in the file."""
    known = {"weet": Rule("weet", "by hand: weet", 7), "ken/kan": Rule("ken/kan", "by hand: ken", 7)}
    for record, evidence in selections(
        measure(tmp_path / "run", KNOW, {"m": knows(KNOW)}, rules="some.json")
    ):
        assert evidence.rules == (known[record.expected],)


def test_rules_that_could_not_be_read(tmp_path: Path) -> None:
    """If rules are unreadable, the evidence identifies the item but has no order and no rule."""
    broken = with_rules(knows(KNOW), "")
    folder = measure(tmp_path / "run", KNOW, {"m": broken}, rules="self", sentences=SENTENCES)
    for record, evidence in selections(folder):
        assert record.status == "unparsed"
        assert (evidence.concept, evidence.variations) == ("know", NAMES)
        assert (evidence.rules, evidence.shown) == ((), ())


@pytest.mark.parametrize("kind", ["chat", "translate"])
def test_translations(tmp_path: Path, kind: Any) -> None:
    """For chat models and translation systems, sentence and translation are kept up to a length limit."""
    text = "Ek weet dit."
    for answer, kept in ((text, text), (text + LONGEST * "a", text + (LONGEST - len(text) - 1) * "a" + "…")):
        models = {"m": always(answer)}
        folder = measure(tmp_path / str(len(answer)), TRANSLATED, models, kinds=frozenset({kind}))
        for record in read_run(folder).records:
            evidence = TranslationEvidence.from_json(record.evidence)
            assert evidence.sentence.startswith("Sentence ")
            assert (evidence.concept, evidence.translation, record.given) == ("know", kept, "weet")


@pytest.mark.simulation
@given(
    st.builds(
        SelectionEvidence, TEXTS, TEXTS, st.lists(TEXTS).map(tuple),
        st.lists(st.lists(TEXTS).map(tuple)).map(tuple),
        st.lists(st.builds(Rule, TEXTS, TEXTS, st.integers(0, 9))).map(tuple), st.lists(TEXTS).map(tuple),
    )
)  # fmt: skip
def test_evidence_is_read_back(evidence: SelectionEvidence) -> None:
    """Written evidence is read back unchanged."""
    assert SelectionEvidence.from_json(evidence.to_json()) == evidence


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_whole_run_of_pytest(run: Runner, workers: tuple[str, ...]) -> None:
    """After a complete run every variation chosen matches the verdict's status."""
    run.write(
        "first.py",
        "import ast, json\n"
        "def names(text, mark):\n"
        "    start = text.index(mark) + len(mark)\n"
        "    return ast.literal_eval(text[start : text.index(']', start) + 1])\n"
        "def reply(chat):\n"
        "    if 'only return a json' in chat.prompt:\n"
        "        return json.dumps({name: f'rule for {name}' for name in names(chat.prompt, 'following keys ')})\n"
        "    return f\"```{names(chat.prompt, 'following list: ')[0]}```\"\n",
    )
    done = run(
        str(Path(__file__).parents[3] / "suites" / "test_dtails.py"), "--rootdir", str(run.folder),
        "--model", f"fake:call?file={run.folder / 'first.py'}", "-k", "(dtails/fa or dtails/te) and not translate",
        "--llm-set", "dtails.rules=self", "--llm-set", "dtails.runs=2", "--llm-limit", "2", *workers,
    )  # fmt: skip
    records = selections(done.folder)
    assert len(records) > 20, done.output
    for record, evidence in records:
        assert evidence.sentence
        kept = {record.expected, *(shown[0] for shown in evidence.shown)}
        assert {rule.variation: rule.text for rule in evidence.rules} == {
            name: f"rule for {name}" for name in kept
        }
        assert [record.values[f"run{n}_position"] for n in (1, 2)] == [1.0, 1.0]
        assert [shown[0] == record.expected for shown in evidence.shown] == [
            bool(record.values[f"run{n}_right"]) for n in (1, 2)
        ]
