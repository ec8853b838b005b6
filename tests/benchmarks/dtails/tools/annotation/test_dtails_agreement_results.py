"""Tables 1 to 6 and the expert set from filled sheets, on hand-computed cases and the paper's paradox."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows, items, languages, words
from pytest_llmprops.benchmarks.dtails.tools.annotation.agreement import Agreement, agreement
from pytest_llmprops.benchmarks.dtails.tools.annotation.results import (
    result_lines,
    rules_result,
    selection_result,
    write_expert_set,
)
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import (
    read_study,
    selection_rows,
    write_selection,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder, read_manifest
from tests.support.annotation import Cells, fill, judging, label_of, options_of, place_of, rows_of, selection

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
    concepts = {f"word{n}": {f"a{n}": "one", f"b{n}": "two"} for n in range(20)}
    sheets = judging(tmp_path, concepts)
    for sheet, rules in zip(sheets, ({}, {"b7": "no"}, {}), strict=True):
        fill(sheet, partial(judged, rules=rules))
    study = read_study(sheets[0].parent)
    result = rules_result(study)
    assert result.accuracy.agreement.questions == 40
    head, _, accuracy, precision, recall = result_lines(study)
    assert head == "rules of openai:gpt-4o, xx: 20 concepts, 3 annotators"
    assert accuracy.split() == [
        "rule",
        "is",
        "correct",
        "40",
        "accuracy",
        "99.2%",
        "0.975",
        "-0.008",
        "0.950",
    ]
    assert precision.split()[-5:] == ["precision", "100.0%", "1.000", "NaN", "1.000"]
    assert recall.split()[-6:] == ["20", "recall", "100.0%", "1.000", "NaN", "1.000"]


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
    assert math.isnan(alone.total)
    assert math.isnan(alone.kappa)
    assert math.isnan(alone.pabak)
    assert agreement([(1, 1), (0, 0)]) == Agreement(2, 1.0, 1.0, 1.0)


def test_published_figures_are_printed(tmp_path: Path) -> None:
    """The paper's figures are printed for its languages and omitted for others."""
    rows, source = selection_rows(None, "af")
    *sheets, _ = write_selection(tmp_path, rows, "af", source)
    for sheet in sheets:
        fill(sheet, lambda line: {"choice": "1", "confidence": "1"})
    assert "(paper 78.9%)" in "\n".join(result_lines(read_study(tmp_path)))


def everybody_right(folder: Path, language: str, data: Path | None = None) -> None:
    """Fill the sheets of a language with the variations of the original translations."""
    rows, source = selection_rows(data, language)
    *sheets, _ = write_selection(folder, rows, language, source)
    label = label_of(folder)
    for sheet in sheets:
        fill(
            sheet,
            lambda line: {
                "choice": str(
                    [text.removeprefix("'") for text in options_of(line)].index(
                        label({c: t.removeprefix("'") for c, t in line.items()})
                    )
                    + 1
                ),
                "confidence": "1",
            },
        )


@pytest.mark.parametrize("language", ["fa", "ta", "ja"])
def test_the_expert_set_is_read_like_published_data(tmp_path: Path, language: str) -> None:
    """Rows that all annotators get right are read back unchanged, with joiners and parts of speech."""
    everybody_right(tmp_path / "sheets", language)
    written = write_expert_set(tmp_path / "out", read_study(tmp_path / "sheets"))
    published = DataFolder(tmp_path / "out", "published")
    assert published.source_for("dtails") == "generated"
    folder = DataFolder(tmp_path / "out", "generated")
    rows, _ = selection_rows(None, language)
    kept = ("concept", "sentence", "target", "variations", "label", "pos")
    expert_set = expert_rows(folder, language)
    assert [[getattr(row, name) for name in kept] for row in expert_set] == [
        [getattr(row, name) for name in kept] for row in rows
    ]
    assert languages(folder) == (language,)
    assert len(list(items(folder))) == 2 * len(rows)
    own = {entry.concept: entry for entry in words(folder, language)}
    assert own
    assert all(own[row.concept].pos == row.pos for row in rows)
    assert published.verify(read_manifest(), everything=True) == []
    assert [path.name for path in written] == ["expert_dataset.csv", f"{language}.words", "SOURCE.json"]


@pytest.mark.parametrize("language", ["af", "fa", "ta", "hy", "gl", "ja"])
def test_published_rows_are_read_back(tmp_path: Path, published: Path, language: str) -> None:
    """If all of the authors' rows are judged right, the expert set equals them, with repeated rows once."""
    everybody_right(tmp_path / "sheets", language, published)
    write_expert_set(tmp_path / "out", read_study(tmp_path / "sheets"))
    rows = [row for row in expert_rows(DataFolder(published, "published"), language) if not row.repeats]
    expert_set = expert_rows(DataFolder(tmp_path / "out", "generated"), language)
    kept = ("concept", "sentence", "target", "variations", "label")
    assert [[getattr(row, name) for name in kept] for row in expert_set] == [
        [getattr(row, name) for name in kept] for row in rows
    ]


def test_only_rows_of_a_majority_are_written(chosen: Path, tmp_path: Path) -> None:
    """Two of the four sentences form the set, and the set says how it was made."""
    write_expert_set(tmp_path / "out", read_study(chosen))
    folder = DataFolder(tmp_path / "out", "generated")
    assert [row.sentence for row in expert_rows(folder, "xx")] == [
        "Sentence 0 says sun.",
        "Sentence 1 says sun.",
    ]
    assert not folder.exists("dtails/en-xx/xx.words")  # The part of speech is unknown.
    facts = json.loads((tmp_path / "out" / "dtails" / "SOURCE.json").read_text(encoding="utf-8"))
    assert facts["languages"] == {"xx": {"from": "builtin", "annotators": 3, "sentences": 4, "kept": 2}}


def test_languages_share_a_folder(tmp_path: Path) -> None:
    """A second language is added to the same folder, and the same language is refused."""
    for language in ("fa", "ta"):
        everybody_right(tmp_path / language, language)
        write_expert_set(tmp_path / "out", read_study(tmp_path / language))
    assert languages(DataFolder(tmp_path / "out", "generated")) == ("fa", "ta")
    facts = json.loads((tmp_path / "out" / "dtails" / "SOURCE.json").read_text(encoding="utf-8"))
    assert list(facts["languages"]) == ["fa", "ta"]
    with pytest.raises(UsageError, match="already has files"):
        write_expert_set(tmp_path / "out", read_study(tmp_path / "ta"))


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
    label = label_of(tmp_path / "s")
    fill(sheet, lambda line: {"choice": str(3 - int(place_of(line, label(line)))), "confidence": "1"})
    with pytest.raises(UsageError, match="there is nothing to write"):
        write_expert_set(tmp_path / "out", read_study(tmp_path / "s"))
    (sheet,) = judging(tmp_path / "r", DAY, annotators=1)
    fill(sheet, lambda line: judged(line, {}, {}, {}))
    with pytest.raises(UsageError, match="these are of --task rules"):
        write_expert_set(tmp_path / "out", read_study(sheet.parent))
