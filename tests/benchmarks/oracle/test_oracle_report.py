"""The oracle-checker section of the report: figure 10, tables 1 to 5, cases and bounds."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.items import MSRP, items
from pytest_llmprops.benchmarks.oracle.report import MOST_DRAWN, adds_words, profile_plot, selected
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.verdicts import objects_in
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.records.files import plain
from pytest_llmprops.reports.kit.blocks import Note
from pytest_llmprops.reports.kit.figures import STYLE
from pytest_llmprops.reports.page.markdown import to_markdown
from tests.support.oracle_runs import Subject, capitalised, control, measure, pair, sentence
from tests.support.records import as_schema_1, recorded, verdict
from tests.support.report_sections import Shown

TOWNS = "Then Oslo wrote to Lima about Quito."
TWO = [
    sentence(TOWNS, 1, ["Oslo", "Quito", "Peru"]),
    sentence("Long ago Oslo was near Cairo.", 2, ["Oslo", "Cairo"], "technical"),
    sentence("Nothing of note is here.", 3),
]
DOGS = "red dogs barked loudly last night."
#: the same phrases in another order, which an alignment covers
MOVED = "last night red dogs barked loudly."
TURNED = "barked loudly last night red dogs."
#: one phrase is another
CATS = "red dogs barked loudly near cats."
MOVED_CATS = "near cats red dogs barked loudly."
PROVED, UNPROVED, DENIED = pair(DOGS, MOVED, 1), pair(DOGS, CATS, 2), pair(MOVED, CATS, 3, label=False)
ASKED = [PROVED, UNPROVED, DENIED]


def tied(text: str, sample: int) -> list[str]:
    """An extractor that finds the replacement of Lima only when Oslo is in the sentence; linear after ``Long ago``."""
    names = capitalised(text)
    complete = "Oslo" in text or "Lima" in text or text.startswith("Long ago")
    return names if complete else names[:1] + names[2:]


def paraphrases(text: str) -> list[str]:
    """Paraphrases that have the same phrases in another order."""
    known = {DOGS: [TURNED], MOVED: [TURNED, DOGS], CATS: [MOVED_CATS]}
    return known.get(text, ["quite another thing is said."])


def denies(*pairs: tuple[str, str]) -> Subject:
    """A model that calls all pairs equivalent except these."""
    return Subject(tied, lambda first, second: (first, second) not in pairs, paraphrases)


SURE = denies((MOVED, CATS))


def shown(folder: Path, asked: Sequence[Item], model: Subject = SURE, **settings: Any) -> Shown:
    """The report on a run of the model ``m``, by default with Algorithm 1, which does not align CATS."""
    return Shown(measure(folder, asked, {"m": model}, **{"alignment": "printed", **settings}))


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run on pairs and sentences in which a "no" has a proof, too."""
    settings: dict[str, Any] = {"tests": 20, "phrases": "all", "alignment": "printed"}
    return measure(tmp_path_factory.mktemp("proved") / "run", [*ASKED, *TWO], {"m": SURE}, **settings)


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The report on sentences."""
    return shown(tmp_path_factory.mktemp("towns") / "run", TWO)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The report on pairs."""
    return shown(tmp_path_factory.mktemp("pairs") / "run", ASKED)


def lines(page: Shown, title: str) -> list[str]:
    """Return the rows of a table as text, without the intervals."""
    texts = [
        [re.sub(r" \([\d.]+ to [\d.]+\)$", "", text) for text in row.values()] for row in page.table(title)
    ]
    return [" | ".join(row) for row in texts]


def test_accepted_shares_are_shown_above_the_published_ones(towns: Shown) -> None:
    """Each domain has a row of metrics, followed by a row of printed numbers for each corpus of the paper."""
    title = "Linearity of entity extraction"
    assert [*towns.table(title)[0]] == [
        "Model", "Sentences from", "Rule", "Sentences", "Accepted", "Linear and faithful", "Overlap with labels",
        "Entities in accepted", "Labelled in accepted", "A_rate", "A_rate, accepted", "Identity", "Named", "By vote",
    ]  # fmt: skip
    assert lines(towns, title) == [
        "m | builtin, general | majority | 1 | 0.0% | 0.0% | 66.7% | 0.0% | 0.0% | 20.0% | – | 71.4% | 100.0% | 0.0%",
        "m | builtin, technical | majority | 1" + 9 * " | 100.0%" + " | 0.0%",
        "GPT3.5 | the paper, DOCRED | any | 5,000 | 79.54% | – | 70% | 71.2% | 78.99% | – | 38.48% | – | 76% | 7%",
        "GPT3.5 | the paper, RISC-V | any | 500 | 48.4% | – | – | 34% | – | – | – | – | 36% | –",
    ]
    figures = towns.figures("oracle-sentences")
    assert [figure.title.partition(": ")[2] for figure in figures] == [
        "m, builtin, general",
        "m, builtin, technical",
    ]


def profile(a_test: float, a_rate: float, entities: float, *groups: float) -> dict[str, float]:
    """The values of a sentence with 100 samples, of which ``groups`` have the same answer."""
    values = {"tests": 1.0, "tests_passed": a_test, "combinations": 1.0, "combinations_passed": a_rate}
    names = ("con_o", *(f"con_o_{n}" for n in range(2, 9)))
    return {**values, "entities": entities, "samples": 100.0, **dict(zip(names, groups, strict=False))}


def test_figure_10_stacks_the_groups_of_answers() -> None:
    """The Con_o chart stacks the most frequent answer, then the other groups; the rest is unreadable.

    Sentences are sorted by the size of their most frequent answer, and a long list is sampled evenly.
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        plot = profile_plot([profile(1.0, 1.0, 3.0, 50, 25), profile(0.4, 0.1, 2.0, 75, 25)], 0)
    charts: list[Any] = plot.axes
    assert [axes.get_ylabel() for axes in charts] == ["A_test", "A_rate", "#E", "Con_o"]
    tops = [list(patch.get_data().values) for patch in charts[3].patches]
    assert [tops[0], tops[-1]] == [[1.0, 0.75], [0.75, 0.5]], "the last group is drawn below the others"
    values = [list(axes.patches[0].get_data().values) for axes in charts[:3]]
    assert values == [[0.4, 1.0], [0.1, 1.0], [2.0, 3.0]]
    assert [text.get_text() for text in plot.legends[0].get_texts()][:2] == ["most frequent answer", "second"]
    sizes = [v["con_o"] for v in selected([profile(1, 0.5, 2, n % 100 + 1) for n in range(5 * MOST_DRAWN)])]
    assert sizes == sorted(sizes, reverse=True)
    assert (len(sizes), min(sizes), max(sizes)) == (MOST_DRAWN, 1, 100)


def test_correlations_are_shown_with_table_1(tmp_path: Path) -> None:
    """Table 1 shows the run's Spearman coefficients next to the printed ones, and a dash for a constant side."""
    records = [
        verdict("linearity", n, benchmark="oracle", id=f"oracle/general/{n:03d}", values=values)
        for n in (1, 2, 3, 4)
        for values in [{**profile(n, (5 - n) / 10, 3, n), "accepted": 1, "faithful": 1, "con_rs": -n, "identity": 1,
                        "changed": 1, "named": 1, "named_by_vote": 0, "tested": 3}]
    ]  # fmt: skip
    metrics = [plain(m.row("model", "oracle")) for m in OracleChecker().metrics(records)]
    page = Shown(recorded(tmp_path / "run", records, metrics=metrics))
    assert [*page.table("Correlations (Table 1)")[0]][4:] == [
        "A_test ~ Con_o", "A_test ~ Con_rs", "A_test ~ #E", "A_rate ~ Con_o", "A_rate ~ Con_rs", "A_rate ~ #E",
        "#E ~ Con_o", "#E ~ Con_rs",
    ]  # fmt: skip
    assert lines(page, "Correlations (Table 1)") == [
        "model | builtin | – | 4 | 1.000 | −1.000 | – | −1.000 | 1.000 | – | – | –",
        "GPT3.5 | the paper, DOCRED | any | 5,000 | 0.447 | 0.422 | −0.399 | 0.789 | 0.859 | −0.414 | −0.264 | −0.302",
        "GPT3.5 | the paper, RISC-V | any | 500 | 0.511 | 0.539 | −0.610 | 0.648 | 0.721 | −0.651 | −0.426 | −0.453",
    ]


FAULTS = "Entities at fault (figures 8 and 9, Tables 6 to 8)"


def test_entities_at_fault_are_shown_with_their_counts(tmp_path: Path) -> None:
    """A rejected sentence is listed once per entity at fault; one that names no entity, with its reason."""
    empty = sentence("None of Oslo is here.", 4, ["Oslo"])
    model = Subject(lambda text, sample: [] if text.startswith("None") else tied(text, sample))
    page = shown(tmp_path / "run", [*TWO, empty], model, tests=20)
    row, other = page.table(FAULTS)
    assert (row["Item"], row["Sentence"], row["Entity"]) == ("oracle/general/001", TOWNS, "Lima")
    [culprit] = objects_in(page.records[0].evidence, "culprits")
    assert (row["Replacement"], row["Why"]) == (culprit["synonym"], culprit["why"])
    assert (other["Sentence"], other["Entity"]) == (empty["text"], "–")
    assert other["Why"] == 'no entities, but labelled: "Oslo"'


def test_tables_2_and_3(proved: Path, pairs: Shown) -> None:
    """Answers by label and provable pairs are above the paper's; a "no" has no proof without the reference."""
    assert lines(pairs, "Answers by label (Table 2)") == [
        "m | builtin | 2 | 100.0% | 0.0% | 1 | 0.0% | 100.0% | 100.0%",
        "GPT3.5 | the paper | 3,454 | 77.65% | 22.35% | 1,546 | 31.44% | 68.56% | 74.84%",
    ]
    assert lines(pairs, "Provable pairs (Table 3)") == [
        "m | builtin | 50.0% | – | 50.0% | – | 50.0% | – | 50.0% | – | 50.0% | 0.0%",
        "GPT3.5 | the paper | 53.97% | 25.86% | 57.02% | 24.45% | 31.77% | 9.66% | 32.7% | 11.2% | – | –",
    ]
    full = lines(Shown(proved), "Provable pairs (Table 3)")[0]
    assert full == "m | builtin" + 5 * " | 50.0% | 0.0%"


def test_table_5_has_the_papers_rule(tmp_path: Path, pairs: Shown) -> None:
    """Table 5 shows accepted "no" answers by category, above the printed numbers; only triangular evidence rejects."""
    title = "Answers of no that are accepted (Table 5)"
    own, printed = lines(pairs, title)
    assert own == "m | builtin | – | – | – | 0.0% of 1 | – | – | – | 0.0% of 1"
    assert printed == (
        "GPT3.5 | the paper | 29.2% of 383 | 45.9% of 475 | 62.5% of 32 | 81.9% of 942"
        " | 21.7% of 152 | 34.8% of 233 | 23.7% of 38 | 71% of 1,409"
    )
    contrary = shown(tmp_path / "run", [DENIED], Subject(None, lambda first, second: False, paraphrases))
    assert contrary.table(title)[0]["φ_or: ĀĪ"] == "100.0% of 1"
    assert "Triangular evidence (Table 15)" not in contrary.titles


def test_sanity_checks_and_table_4(tmp_path: Path) -> None:
    """Own paraphrases and the three sanity checks are shown above the paper's numbers."""
    controls = {"own_paraphrase": PROVED, "consistency": PROVED, "random_pair": DENIED}
    asked = [PROVED, *(control(item, task) for task, item in controls.items())]
    page = shown(tmp_path / "run", asked)
    assert lines(page, "Own paraphrases (Table 4)") == [
        "m | builtin | 1 | 100.0% | 100.0% | 100.0% | – | – | – | –",
        "GPT3.5 | the paper | 500 | 99% | 62.5% | 45.34% | 60% | 60% | 0% | 0%",
    ]
    assert "Own paraphrases that the model denies (Table 14)" not in page.titles
    assert lines(page, "Sanity checks (section 5.2.1)") == [
        "m | builtin | 0.0% | 0.0% | 100.0% | 0.0% | 0.0%",
        "GPT3.5 | the paper | 11.8% | 0.8% | 100% | 0% | 100%",
    ]


def test_denied_paraphrases_are_listed_with_their_proofs(tmp_path: Path) -> None:
    """Table 14 has the proof or the leftover words, the test of the answer of no, and the model's explanation."""
    asked = [control(item, "own_paraphrase") for item in (PROVED, pair(CATS, DOGS, 5), pair(MOVED, DOGS, 6))]
    # The paraphrase of CATS has other words; the no about it is not tested, because there is no other paraphrase.
    known = {DOGS: [TURNED, MOVED], CATS: ["quite another thing is said."], MOVED: [DOGS]}
    denied = [(DOGS, TURNED), (CATS, known[CATS][0])]
    model = Subject(
        same=lambda first, second: (first, second) not in denied, paraphrases=lambda text: known.get(text, [])
    )
    page = shown(tmp_path / "run", asked, model, phrases="all")
    proved, unproved = page.table("Own paraphrases that the model denies (Table 14)")
    assert [*proved.values()][2:] == [
        DOGS, TURNED, "proved: φ_or, φ_and",
        f"rejected: triangular evidence; “{MOVED}”: yes to the other sentence, yes to its own", "because",
    ]  # fmt: skip
    assert unproved["Item"] == "oracle/pair/005+own_paraphrase"
    assert unproved["Proof that they are equivalent"].startswith("not proved: s1: { ")
    assert unproved["Answer of no"] == "no paraphrase to test it with"
    own = page.table("Own paraphrases (Table 4)")[0]
    assert own["Says no: accepted, φ_or"].startswith("0.0% (")


def test_a_proof_is_shown_as_its_phrases(proved: Path) -> None:
    """An accepted "yes" is shown with its confirmed phrase pairs, and a rejected one with its leftover words."""
    page = Shown(proved)
    phrases = "; ".join(f"“{text}” = “{text}”" for text in ("red dogs", "barked loudly", "last night"))
    assert lines(page, "Proofs (Table 13)") == [f"{PROVED.id} | m | {DOGS} | {MOVED} | {phrases}"]
    assert lines(page, "Leftover words (Table 12)") == [
        f"{UNPROVED.id} | m | {DOGS} | {CATS} | s1: {{ last night }}, s2: {{ near cats }}"
    ]


def test_triangular_evidence_is_shown(tmp_path: Path, pairs: Shown) -> None:
    """A rejected "no" shows both sentences and the paraphrase that the model calls equivalent to both."""
    [row] = pairs.table("Triangular evidence (Table 15)")
    assert (row["Item"], row["Sentence 1"], row["Sentence 2"]) == (DENIED.id, MOVED, CATS)
    texts = {f"of sentence 1: {p}" for p in paraphrases(MOVED)} | {f"of sentence 2: {MOVED_CATS}"}
    assert row["Paraphrase, said to be equivalent to both"] in texts
    assert row["Indifferentiable"] == "no"
    close = shown(tmp_path / "close", [pair(DOGS, MOVED, 4)], denies((DOGS, MOVED)), alignment="printed")
    assert close.table("Triangular evidence (Table 15)")[0]["Indifferentiable"] == "yes"


def test_disagreements_with_the_label_are_sorted(tmp_path: Path) -> None:
    """Answers that differ from the label are listed, by answer and by the words of each sentence."""
    long = "red dogs barked loudly near cats and two white ducks last night."
    asked = [
        pair(DOGS, long, 1, label=False), pair(DOGS, CATS, 2, label=False), pair(MOVED, CATS, 3),
        pair(DOGS, MOVED, 4),
    ]  # fmt: skip
    title = "Answers that differ from the label (Tables 9 to 11)"
    rows = shown(tmp_path / "run", asked).table(title)
    names = ("Checker", "Answer", "Words of one sentence only")
    assert [" | ".join([row["Item"][-3:], *(row[name] for name in names)]) for row in rows] == [
        "003 | rejected | no, labelled yes: both differ | s1: { last night }, s2: { near cats }",
        "002 | rejected | yes, labelled no: both differ | s1: { last night }, s2: { near cats }",
        "001 | accepted-yes | yes, labelled no: one sentence adds words | s2: { near cats and two white ducks }",
    ]
    assert (rows[2]["Sentence 2"], rows[2]["The model's explanation"]) == (long, "because")
    assert title not in shown(tmp_path / "agreeing", [PROVED]).titles


#: the pairs of tables 9 to 11 in MSRP -> whether one sentence adds words, as the paper says
PRINTED = {
    "3131772-3131625": True, "1563874-1563853": True, "3119349-3119343": True, "1330381-1330521": False,
    "1284150-1284173": False, "1041293-1041421": False, "3334905-3334946": False,
}  # fmt: skip


def test_the_papers_examples_are_sorted_as_in_the_paper(published: Path) -> None:
    """The rule for added words puts each pair of tables 9 to 11 where the paper has it."""
    if not (published / MSRP[0]).is_file():
        pytest.skip("MSRP is not in the folder")
    found = {item.id.rpartition("/")[2]: item for item in items(DataFolder(published, "published"))}
    pairs = {name: found[name] for name in PRINTED}
    assert {name: adds_words(item["first"], item["second"]) for name, item in pairs.items()} == PRINTED


def test_a_record_without_evidence(tmp_path: Path, proved: Path) -> None:
    """A schema 1 record has no evidence: numbers and reasons are shown, and no cases."""
    old = Shown(as_schema_1(shutil.copytree(proved, tmp_path / "old")))
    cases = {"Proofs (Table 13)", "Leftover words (Table 12)", "Triangular evidence (Table 15)"}
    assert Shown(proved).titles >= cases
    assert not old.titles & cases
    [row] = old.table(FAULTS)
    assert row["Sentence"] == "–"
    assert "tests failed; " in row["Why"]


def test_the_headline_and_the_page(tmp_path: Path) -> None:
    """The headline counts accepted answers without sanity checks; page and Markdown are written."""
    page = shown(tmp_path / "run", [*ASKED, *TWO, control(PROVED, "consistency")])
    # Accepted: two sentences. The third sentence has nothing to test.
    assert page.report.title.startswith("m has an accepted answer to 66.7% of oracle sentences (")
    conclusion = "Pairs: no conclusion: 1 of 3 answers are accepted (33.3%); "
    assert any(note.text.startswith(conclusion) for note in page.every(Note))
    assert page.report.sections[0].title == "Oracle-checker"
    text = to_markdown(page.report)
    assert "Triangular evidence" in text
    assert "79.54%" in text
    assert "Triangular evidence" in page.html
