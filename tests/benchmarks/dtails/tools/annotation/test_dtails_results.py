"""Agreement and tables 1 to 6 from filled sheets, on hand-computed cases and the paper's printed values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from pytest_llmprops.benchmarks.dtails.items import expert_rows, items, languages, words
from pytest_llmprops.benchmarks.dtails.tools.annotation.results import (
    Agreement,
    agreement,
    expert_set,
    fleiss_kappa,
    judged_share,
    majority,
    pabak,
    result_lines,
    rules_result,
    selection_result,
    sufficient_context_share,
    total_agreement,
    write_expert_set,
)
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import (
    Study,
    read_study,
    selection_rows,
    write_selection,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder, read_manifest
from tests.support.annotation import (
    Cells,
    fill,
    judging,
    original_choice,
    place_of,
    rows_of,
    selection,
)

#: 40 rules by 3 annotators, one of whom calls one rule wrong
PARADOX = [(True, True, True)] * 39 + [(True, True, False)]


def test_kappa_paradox_of_the_paper() -> None:
    """Table 4, Afrikaans: 97.5% agreement, kappa -0.008, PABAK 0.950; table 3: 99.2% are right."""
    assert round(total_agreement(PARADOX), 3) == 0.975
    assert round(fleiss_kappa(PARADOX), 3) == -0.008
    assert round(pabak(PARADOX), 3) == 0.950
    assert round(judged_share(PARADOX), 3) == 0.992


@given(st.integers(2, 5).flatmap(lambda size: st.lists(st.tuples(*[st.integers(0, 3)] * size), min_size=1)))
@example([(1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 0, 0)])  # p = 5/6, chance 74/144, kappa 23/35
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_kappa_is_statsmodels_kappa(ratings: list[tuple[int, ...]]) -> None:
    """Kappa equals the value of statsmodels for any number of questions, annotators and categories."""
    assume(len({answer for answers in ratings for answer in answers}) > 1)
    table, _ = aggregate_raters(np.array(ratings))
    assert fleiss_kappa(ratings) == pytest.approx(statsmodels_kappa(table), abs=1e-12)


@pytest.mark.parametrize("ratings", [[], [(True, True, True)] * 5])
def test_kappa_undefined(ratings: list[tuple[bool, ...]]) -> None:
    """Without questions, or if all answers are equal (table 4, Latvian), kappa is NaN without a warning."""
    assert math.isnan(fleiss_kappa(ratings))
    if ratings:
        assert total_agreement(ratings) == pabak(ratings) == 1.0


@pytest.mark.parametrize(
    ("agreed", "of", "total", "expected"),
    [(29, 41, 0.707, 0.415), (8, 18, 0.444, -0.111), (10, 17, 0.588, 0.176), (19, 24, 0.792, 0.583)],
)
def test_pabak_from_total_agreement(agreed: int, of: int, total: float, expected: float) -> None:
    """PABAK is twice the total agreement minus one (rows of tables 4 and 6)."""
    ratings = [(True,) * 3] * agreed + [(True, False, False)] * (of - agreed)
    assert round(total_agreement(ratings), 3) == total
    assert round(pabak(ratings), 3) == expected


def test_pabak_of_several_categories() -> None:
    """With three possible answers an agreement of one third gives a PABAK of 0."""
    ratings = [("a", "a"), ("a", "b"), ("b", "c")]
    assert pabak(ratings, categories=3) == pytest.approx(0.0)
    with pytest.raises(DataError, match="3 different answers"):
        pabak(ratings)
    assert math.isnan(pabak([]))


@pytest.mark.parametrize("measure", [total_agreement, fleiss_kappa, pabak])
@pytest.mark.parametrize(
    ("ratings", "says"), [([(1, 0), (1, 0, 1)], "2 to 3 answers"), ([(1,), (0,)], "two annot")]
)
def test_ragged_ratings(measure: object, ratings: list[tuple[int, ...]], says: str) -> None:
    """Questions with different numbers of answers, or with a single annotator, are refused."""
    with pytest.raises(DataError, match=says):
        measure(ratings)  # type: ignore[operator]


@pytest.mark.parametrize(("yes", "of", "printed"), [(42, 51, 0.824), (217, 300, 0.723), (110, 123, 0.894)])
def test_recall_pools_judgements(yes: int, of: int, printed: float) -> None:
    """Table 1's recall is a share of all judgements, three per concept (Afrikaans 17, Farsi 100, Hindi 41)."""
    judgements = [True] * yes + [False] * (of - yes)
    ratings = list(zip(*[iter(judgements)] * 3, strict=True))
    assert round(judged_share(ratings), 3) == printed
    assert math.isnan(judged_share([]))


def test_majority() -> None:
    """A majority is more than half, so two of four is not a majority."""
    assert majority(["a", "b", "a"]) == "a"
    assert majority(["a", "b", "c"]) is None
    assert majority(["a", "a", "b", "b"]) is None
    assert majority([]) is None


def test_expert_set_and_context() -> None:
    """Rows whose majority chose the original are kept, and their share has sufficient context."""
    choices = {"r1": "aab", "r2": "abc", "r3": "bba", "r4": "aaa", "r5": ""}
    originals = {"r1": "a", "r2": "a", "r3": "a", "r4": "a", "r5": None}
    assert expert_set(choices, originals) == ("r1", "r4")
    assert sufficient_context_share(choices, originals) == pytest.approx(2 / 5)
    assert math.isnan(sufficient_context_share({}, originals))
    with pytest.raises(DataError, match="row 'r9'"):
        expert_set({"r9": "a"}, originals)


DAY = {"sun": {"son": "the star", "sol": "sunlight"}, "day": {"dag": "light", "etmaal": "24 hours"}}


def judged(
    line: Cells,
    rules: Mapping[str, str] = MappingProxyType({}),
    wrong: Mapping[str, str] = MappingProxyType({}),
    missing: Mapping[str, str] = MappingProxyType({}),
) -> Cells:
    """Return one annotator's answer; without entries for a rule or concept there is not a JSON objection."""
    if line["ask"].startswith("Is the rule"):
        return {"answer": rules.get(line["variation"], "yes")}
    concept = line["concept"]
    if line["ask"].startswith("Which"):
        return {"answer": place_of(line, wrong[concept]) if concept in wrong else "none"}
    return {"answer": "yes" if concept in missing else "no", "which": missing.get(concept, "")}


def test_kappa_paradox_from_files(tmp_path: Path) -> None:
    """Table 4, Afrikaans: one of three annotators calls one of 40 rules wrong; table 3: 99.2% are correct."""
    sheets = judging(tmp_path, {f"word{n}": {f"a{n}": "one", f"b{n}": "two"} for n in range(20)})
    for sheet, rules in zip(sheets, ({}, {"b7": "no"}, {}), strict=True):
        fill(sheet, partial(judged, rules=rules))
    study = read_study(sheets[0].parent)
    assert rules_result(study).accuracy.agreement.questions == 40
    head, _, accuracy, precision, recall = result_lines(study)
    assert head == "rules of openai:gpt-4o, xx: 20 concepts, 3 annotators"
    assert " ".join(accuracy.split()) == "rule is correct 40 accuracy 99.2% 0.975 -0.008 0.950"
    assert " ".join(precision.split()).endswith("precision 100.0% 1.000 NaN 1.000")
    assert " ".join(recall.split()).endswith(" 20 recall 100.0% 1.000 NaN 1.000")


def test_rules_by_hand(tmp_path: Path) -> None:
    """9 of 12 rules, 11 of 12 variations and 2 of 6 concepts are accepted; rejected rules are named."""
    sheets = judging(tmp_path, DAY)
    people: list[tuple[dict[str, str], dict[str, str], dict[str, str]]] = [
        ({"etmaal": "no"}, {}, {"day": "dagje"}),
        ({"etmaal": "no", "dag": "no"}, {}, {"day": ""}),
        ({}, {"sun": "sol"}, {"day": "", "sun": "zon \x1b[2J"}),
    ]
    for sheet, (rules, wrong, missing) in zip(sheets, people, strict=True):
        fill(sheet, partial(judged, rules=rules, wrong=wrong, missing=missing))
    study = read_study(sheets[0].parent)
    result = rules_result(study)
    assert (result.concepts, result.accuracy.share) == pytest.approx((2, 9 / 12))
    assert (result.precision.share, result.recall.share) == pytest.approx((11 / 12, 2 / 6))
    totals = [part.agreement.total for part in (result.accuracy, result.precision, result.recall)]
    assert totals == pytest.approx([2 / 4, 3 / 4, 1 / 2])
    # chance (9/12)^2 + (3/12)^2 = 5/8; observed (1 + 1 + 1/3 + 1/3) / 4 = 2/3
    assert result.accuracy.agreement.kappa == pytest.approx((2 / 3 - 5 / 8) / (3 / 8))
    assert result.accuracy.agreement.pabak == pytest.approx(0)
    assert result.rejected == (("day", "etmaal", "rule"),)
    assert set(result.missing) == {("day", "dagje"), ("sun", "zon ␛[2J")}
    text = result_lines(study)
    assert "a majority: day, etmaal: the rule is not correct" in text
    assert all(line.isprintable() for line in text)


def test_wrong_words_are_named(tmp_path: Path) -> None:
    """A variation that two of three annotators select as wrong is named."""
    sheets = judging(tmp_path, DAY)
    for sheet, wrong in zip(sheets, ({"sun": "sol"}, {}, {"sun": "sol"}), strict=True):
        fill(sheet, partial(judged, wrong=wrong))
    study = read_study(sheets[0].parent)
    assert rules_result(study).rejected == (("sun", "sol", "wrong"),)
    assert "a majority: sun, sol: does not mean it" in result_lines(study)


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    """Four sentences: all right; two of three right; two with one wrong answer; three wrong in two ways."""
    people = [["son", "zon", "zon", "etmaal"], ["son", "zon", "zon", "dia"], ["son", "sol", "dag", "etmaal"]]
    concepts = {"sun": ["son", "zon", "sol"], "day": ["dag", "zon", "dia", "etmaal"]}
    rows = rows_of(concepts)
    order = [row.sentence for row in rows]
    labels = [row.variations[row.label].name for row in rows]
    assert labels == ["son", "zon", "dag", "zon"]
    sheets = selection(tmp_path, concepts)
    sure = ("Absolutely sure", "Likely but uncertain", "No idea")

    def selected(line: Cells, choices: Sequence[str], confidence: str) -> Cells:
        choice = choices[order.index(line["sentence"])]
        return {"choice": place_of(line, choice), "confidence": confidence}

    for sheet, choices, confidence in zip(sheets, people, sure, strict=True):
        fill(sheet, partial(selected, choices=choices, confidence=confidence))
    return tmp_path


def test_selection_by_hand(chosen: Path) -> None:
    """Table 2: half of the sentences have sufficient context, and both agreements are as computed."""
    study = read_study(chosen)
    result = selection_result(study)
    assert (result.expert, result.sufficient) == (("r0001", "r0002"), 0.5)
    assert (result.concepts, result.total) == (2, 0.25)
    # right are 3 + 2 + 1 + 0 of 12, chance 1/2, observed (1 + 1/3 + 1/3 + 1) / 4 = 2/3
    assert result.original.share == pytest.approx(0.5)
    assert result.original.agreement.total == 0.5
    assert result.original.agreement.kappa == pytest.approx(1 / 3)
    assert result.original.agreement.pabak == pytest.approx(0)
    assert list(result.confidence.values()) == pytest.approx([1 / 3] * 3)
    assert list(result.annotators.values()) == [0.5, 0.5, 0.5]
    text = "\n".join(result_lines(study))
    assert "sufficient context  50.0%: for 2 of 4 " in text
    assert "Fleiss kappa 0.333, PABAK 0.000" in text


def test_omitted_sheet_is_not_counted(chosen: Path) -> None:
    """Without the third annotator's sheet the second sentence is right for both others."""
    study = read_study(chosen, without=["annotator_3.csv"])
    assert selection_result(study).total == 0.75
    assert list(selection_result(study).annotators) == ["annotator_1.csv", "annotator_2.csv"]


def test_one_annotator_has_no_agreement(tmp_path: Path) -> None:
    """With one sheet the shares are reported and every agreement statistic is NaN."""
    (sheet,) = selection(tmp_path, {"sun": ["son", "sol"]}, annotators=1)
    fill(sheet, lambda line: {"choice": "1", "confidence": "3"})
    text = "\n".join(result_lines(read_study(tmp_path)))
    assert "agreement NaN, Fleiss kappa NaN, PABAK NaN" in text
    assert "50.0%" in text
    alone = agreement([(True,), (False,)])
    assert alone.questions == 2
    assert all(map(math.isnan, (alone.total, alone.kappa, alone.pabak)))
    assert agreement([(1, 1), (0, 0)]) == Agreement(2, 1.0, 1.0, 1.0)


KEPT = attrgetter("concept", "sentence", "target", "variations", "label")


def everybody_right(folder: Path, language: str, data: Path | None = None) -> Study:
    """Return the study of a language whose sheets all have the variations of the original translations."""
    rows, source = selection_rows(data, language)
    *sheets, _ = write_selection(folder, rows, language, source)
    choose = original_choice(folder)
    for sheet in sheets:
        fill(sheet, lambda line: {"confidence": "1", **choose(line)})
    return read_study(folder)


@pytest.mark.parametrize("language", ["fa", "ja"])
def test_the_expert_set_is_read_like_published_data(tmp_path: Path, language: str) -> None:
    """Rows that all annotators get right are read back unchanged, with joiners and parts of speech."""
    written = write_expert_set(tmp_path / "out", everybody_right(tmp_path / "sheets", language))
    published = DataFolder(tmp_path / "out", "published")
    assert published.source_for("dtails") == "generated"
    folder = DataFolder(tmp_path / "out", "generated")
    rows, _ = selection_rows(None, language)
    expert_set = expert_rows(folder, language)
    assert [(*KEPT(row), row.pos) for row in expert_set] == [(*KEPT(row), row.pos) for row in rows]
    assert languages(folder) == (language,)
    assert len(list(items(folder))) == 2 * len(rows)
    own = {entry.concept: entry for entry in words(folder, language)}
    assert own
    assert all(own[row.concept].pos == row.pos for row in rows)
    assert published.verify(read_manifest(), everything=True) == []
    assert [path.name for path in written] == ["expert_dataset.csv", f"{language}.words", "SOURCE.json"]


@pytest.mark.parametrize("language", ["af", "fa"])
def test_published_rows_are_read_back(tmp_path: Path, published: Path, language: str) -> None:
    """If all of the authors' rows are judged right, the expert set equals them, with repeated rows once."""
    write_expert_set(tmp_path / "out", everybody_right(tmp_path / "sheets", language, published))
    rows = [row for row in expert_rows(DataFolder(published, "published"), language) if not row.repeats]
    expert_set = expert_rows(DataFolder(tmp_path / "out", "generated"), language)
    assert list(map(KEPT, expert_set)) == list(map(KEPT, rows))


def test_only_rows_of_a_majority_are_written(chosen: Path, tmp_path: Path) -> None:
    """Two of the four sentences form the set, and the set says how it was made."""
    write_expert_set(tmp_path / "out", read_study(chosen))
    folder = DataFolder(tmp_path / "out", "generated")
    sentences = [row.sentence for row in expert_rows(folder, "xx")]
    assert sentences == ["Sentence 0 says sun.", "Sentence 1 says sun."]
    assert not folder.exists("dtails/en-xx/xx.words")  # The part of speech is unknown.
    facts = json.loads((tmp_path / "out" / "dtails" / "SOURCE.json").read_text(encoding="utf-8"))
    assert facts["languages"] == {"xx": {"from": "builtin", "annotators": 3, "sentences": 4, "kept": 2}}


def test_languages_share_a_folder(tmp_path: Path) -> None:
    """A second language is added to the same folder, and the same language is refused."""
    for language in ("fa", "ta"):
        study = everybody_right(tmp_path / language, language)
        write_expert_set(tmp_path / "out", study)
    assert languages(DataFolder(tmp_path / "out", "generated")) == ("fa", "ta")
    facts = json.loads((tmp_path / "out" / "dtails" / "SOURCE.json").read_text(encoding="utf-8"))
    assert list(facts["languages"]) == ["fa", "ta"]
    with pytest.raises(UsageError, match="already has files"):
        write_expert_set(tmp_path / "out", study)


def test_other_data_is_never_overwritten(chosen: Path, tmp_path: Path) -> None:
    """Published data, data generated by another command, and a file in place of the folder are refused."""
    study = read_study(chosen)
    (tmp_path / "a" / "dtails" / "en-af").mkdir(parents=True)
    with pytest.raises(UsageError, match="has data from another source"):
        write_expert_set(tmp_path / "a", study)
    (tmp_path / "a" / "dtails" / "SOURCE.json").write_text('{"source": "generated"}', encoding="utf-8")
    with pytest.raises(UsageError, match="has data from another source"):
        write_expert_set(tmp_path / "a", study)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        write_expert_set(tmp_path / "file", study)


def test_studies_without_an_expert_set(tmp_path: Path) -> None:
    """Without a sentence with sufficient context, or with sheets of rules, no expert set can be written."""
    (sheet,) = selection(tmp_path / "s", {"sun": ["son", "sol"]}, annotators=1)
    choose = original_choice(tmp_path / "s")
    fill(sheet, lambda line: {"choice": str(3 - int(choose(line)["choice"])), "confidence": "1"})
    with pytest.raises(UsageError, match="there is nothing to write"):
        write_expert_set(tmp_path / "out", read_study(tmp_path / "s"))
    (sheet,) = judging(tmp_path / "r", DAY, annotators=1)
    fill(sheet, lambda line: judged(line, {}, {}, {}))
    with pytest.raises(UsageError, match="these are of --task rules"):
        write_expert_set(tmp_path / "out", read_study(sheet.parent))
