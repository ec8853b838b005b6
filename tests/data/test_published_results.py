"""The papers' printed figures: structure, counts, and every sum that the papers allow to be recomputed.

The published texts themselves are not part of the project, so what can be checked is that the numbers agree
with each other as far as the papers' own do, and that each disagreement has a note in its row.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import builtin_data
from pytest_llmprops.data.published_results import (
    COLUMNS,
    PublishedResult,
    find,
    load_published,
    read_published,
)

HTEST_TASKS = (
    "uppercase", "start_vowel", "end_punctuation", "palindrome", "end_ly", "spelled_math", "spelled_number",
    "rhyme", "repeated_word", "hyphenated_word",
)  # fmt: skip
DTAILS_LANGUAGES = {"af", "hy", "fa", "gl", "hi", "ja", "lv", "ta", "te"}

TASKS = {
    "homophones": {"asked"},
    "eras": {"explicit", "implicit"},
    "dtails": {"select", "dataset", "concepts", "rules", "precision", "recall"},
    "htest": {*HTEST_TASKS, "average", "letter_geometry"},
    "oracle": {"linearity", "yes", "no", "decision"},
}
#: the metrics that are no shares
COUNTED = re.compile(r".*_(count|per_sentence|per_concept)")
SIGNED = ("difference", "spearman_correlation", "fleiss_kappa", "pabak")


def one(**wanted: object) -> PublishedResult:
    """Return the only result that matches."""
    (result,) = find(**wanted)  # type: ignore[arg-type]
    return result


ROWS = {
    "homophones": {"2": 22, "section 10.3": 1},
    "eras": {"1": 63, "2": 72, "footnote 6": 8, "section 2.4": 2},
    "dtails": {
        "1": 27, "2": 27, "3": 9, "4": 26, "5": 27, "6": 27, "7": 9, "abstract": 2, "section 2.1": 1,
        "section 2.2": 1, "section 4": 3,
    },
    "htest": {"2": 66, "5": 38, "6": 369, "7": 4, "8": 121, "section 3": 2, "section 4": 3, "section 5": 2},
    "oracle": {
        "1": 16, "2": 5, "3": 8, "4": 5, "5": 8, "section 3": 2, "section 5.1": 8, "section 5.2.1": 5,
        "figure 6 caption": 2, "appendix A.2": 1, "appendix A.4": 2, "appendix B.3.3": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("paper", ROWS)
def test_every_row_is_well_formed(paper: str) -> None:
    """Each table has as many printed figures as in the paper, no row occurs twice, and shares lie in [0, 1].

    The columns are in order; paper, task and language are known.
    """
    raw = (builtin_data() / "published_results" / f"{paper}.csv").read_bytes()
    assert ",".join(COLUMNS) == raw.decode().split("\n", 1)[0]
    results = load_published(paper)
    assert ROWS[paper] == Counter(result.table for result in results)
    for result in results:
        assert result.paper == paper
        assert result.language in {"", "en", "zh", "es"} | DTAILS_LANGUAGES
        is_count = COUNTED.fullmatch(result.metric) is not None
        assert -(result.metric in SIGNED) <= result.value <= (1_000_000 if is_count else 1), result
        assert result.value.is_integer() or not result.metric.endswith("_count"), result
        assert result.n is None or result.n > 0
        assert result.k in (None, 4, 14, 28, 50)
    keys = {(r.table, r.model, r.task, r.metric, r.language, r.k, r.setting) for r in results}
    assert len(keys) == len(results)
    assert TASKS[paper] == {result.task for result in results}


def test_spot_values() -> None:
    """Values read again from the printed pages, from different parts of the tables, match."""
    table6 = {"paper": "htest", "table": "6", "metric": "accuracy"}
    assert one(**table6, model="Claude V1", task="rhyme", k=50).value == 0.895
    assert one(**table6, model="Command-Light", task="palindrome", k=50).value == 0.205
    assert one(**table6, model="Luminous Supreme", task="hyphenated_word", k=50).value == 0.5
    assert one(**table6, model="LLaMA 2 70B", task="palindrome", k=28).value == 0.215
    assert one(**table6, model="GPT 4o", task="spelled_math", k=14).value == 0.945
    assert one(**table6, model="GPT 3.5", task="rhyme", k=4).value == 0.375
    assert one(**table6, model="GPT 3.5", task="letter_geometry").value == 0.444
    table8 = {"paper": "htest", "table": "8", "model": "gpt-3.5-turbo-0613"}
    assert one(**table8, task="spelled_math", setting="fine-tuned on start_vowel").value == 0.325
    assert one(**table8, task="end_ly", setting="fine-tuned on end_ly").value == 0.575
    assert one(paper="htest", table="2", model="J2 Ultra", task="end_ly").value == 0.585
    assert one(paper="htest", table="5", model="Claude 3 Opus", task="rhyme").value == 0.685
    assert one(paper="homophones", model="Ernie-4.0", language="zh", metric="accuracy").value == 0.63
    assert one(paper="homophones", model="GPT-4", language="es", metric="standard_error").value == 0.038
    table1 = {"paper": "eras", "table": "1", "model": "PKUSEG", "metric": "test_accuracy"}
    shares = [one(**table1, setting=group).value for group in ("overall", "left", "right")]
    assert shares == [0.754, 0.784, 0.712]
    assert one(paper="eras", model="Megatron-1.3B", metric="difference", setting="+/0").value == 0.136
    assert one(paper="eras", model="CWS", metric="necessity").value == 0.403
    assert one(paper="dtails", table="1", language="ja", metric="concept_count").value == 202
    assert one(paper="dtails", table="3", language="hy").value == 0.862
    assert one(paper="dtails", table="6", language="gl", metric="pabak").value == 0.583
    assert one(paper="oracle", table="3", setting="phi_and; GPT3.5 yes").value == 0.327
    assert one(paper="oracle", setting="RISC-V; A_rate and #E").value == -0.651
    assert one(paper="oracle", table="section 5.1", metric="combination_pass_rate").value == 0.3848


def htest_columns() -> dict[tuple[str, str, int | None, str], dict[str, PublishedResult]]:
    columns: dict[tuple[str, str, int | None, str], dict[str, PublishedResult]] = defaultdict(dict)
    for result in load_published("htest"):
        if result.metric == "accuracy" and result.task != "letter_geometry":
            key = (result.table, result.model, result.k, result.setting)
            columns[key][result.task] = result
    return columns


def test_htest_averages() -> None:
    """A printed average that differs from the mean of its ten tasks, and only such a one, is noted with that
    mean.
    """
    odd = set()
    for (table, model, k, _), tasks in htest_columns().items():
        if set(tasks) != {*HTEST_TASKS, "average"}:
            continue  # Rows of Table 5 that Table 6 has too: only their average is compared.
        mean = sum(tasks[task].value for task in HTEST_TASKS) / 10
        average = tasks["average"]
        if abs(mean - average.value) > 0.00051:
            odd.add((table, model, k))
            assert "mean of the ten printed" in average.note or "wrong" in average.note, average
        else:
            assert "mean of the ten" not in average.note, average
    assert odd == {
        ("2", "Claude V2", 50), ("2", "LLaMA 2 70B", 50), ("5", "Claude 3 Opus", None),
        ("6", "LLaMA 2 70B", 50), ("6", "Luminous Base", 50), ("6", "Luminous Extended", 50),
        *(("6", model, 28) for model in ("Claude V1", "Claude V2", "Command", "GPT 3.5", "LLaMA 2 70B")),
        *(("6", model, k) for k in (14, 4) for model in (
            "J2 Ultra", "Claude V1", "Claude V2", "Command", "GPT 3.5", "LLaMA 2 70B")),
    }  # fmt: skip


def test_htest_tables_agree() -> None:
    """Tables 2, 5 and 8 repeat Table 6, except for Table 2's Claude V2 average, which is Claude Instant's."""
    columns = htest_columns()
    differing = []
    for (table, model, k, setting), tasks in columns.items():
        other = columns.get(("6", "GPT 3.5" if setting == "original" else model, k, ""))
        if table == "6" or other is None:
            continue
        differing += [
            (table, model, task)
            for task, result in tasks.items()
            if abs(result.value - other[task].value) > 0.00051
        ]
    assert differing == [("2", "Claude V2", "average")]
    wrong = one(paper="htest", table="2", model="Claude V2", task="average")
    instant = one(paper="htest", table="6", model="Claude Instant V1", task="average")
    assert wrong.value == instant.value == 0.604
    assert one(paper="htest", table="6", model="Claude V2", task="average", k=50).value == 0.619


def test_doubtful_htest_figures_have_a_note() -> None:
    """Table 5's additional rows, Command at k = 50, and impossible shares of 200 items have a note."""
    for result in load_published("htest"):
        doubtful = result.model == "Command" and result.k == 50 and result.table == "6"
        assert doubtful == result.note.startswith("doubtful")
        inferred = result.table == "5" and result.task != "average"
        assert inferred == ("column order inferred" in result.note)
        if result.metric == "accuracy" and result.task in HTEST_TASKS:
            whole = abs(result.value * 200 - round(result.value * 200)) < 1e-6
            assert whole != ("not a whole number of 200 items" in result.note)


def test_homophones_figures() -> None:
    """Each printed error is the binomial standard error of its accuracy over 100 items, rounded."""
    errors = find(paper="homophones", metric="standard_error")
    assert len(errors) == 10
    for error in errors:
        p = one(paper="homophones", metric="accuracy", model=error.model, language=error.language).value
        assert abs(math.sqrt(p * (1 - p) / 100) - error.value) <= 0.00051
    noted = [r for r in find(paper="homophones", metric="accuracy") if "the verdicts in" in r.note]
    assert sum(r.value for r in noted) == pytest.approx((20 + 68) / 100)
    assert {(r.model, r.value, r.note.partition("count ")[2][:10]) for r in noted} == {
        ("GPT-3.5", 0.28, "20 correct"),
        ("GPT-4", 0.6, "68 correct"),
    }


def test_eras_table_1() -> None:
    """Differences are control minus test; overall is the 23:16 mean, or the note says that it differs."""
    rows = {(r.model, r.setting, r.metric): r for r in find(paper="eras", table="1")}
    for (model, group, metric), result in rows.items():
        if metric == "difference":
            control, test = (rows[model, group, f"{name}_accuracy"].value for name in ("control", "test"))
            assert abs(control - test - result.value) < 0.00101, result
        if group == "overall":
            left, right = (rows[model, side, metric].value for side in ("left", "right"))
            fits = abs((23 * left + 16 * right) / 39 - result.value) <= 0.0011
            assert fits != ("not the 23:16 mean" in result.note)
            assert fits == (model in {"Jieba", "PKUSEG", "MaxMatch"})


def test_eras_garden_path_error_rate() -> None:
    """GPER is (1 - accuracy) times necessity, as section 4.1 defines it."""
    rates = [rate for rate in find(paper="eras", metric="gper") if rate.model != "Humans"]
    assert len(rates) == 7
    for rate in rates:
        accuracy = one(paper="eras", metric="pair_accuracy", model=rate.model).value
        necessity = one(paper="eras", metric="necessity", model=rate.model).value
        assert abs((1 - accuracy) * necessity - rate.value) < 0.0011
    # The human baseline follows from the annotation: half of the tied rankings count as wrong.
    ranking = one(paper="eras", metric="ranking_accuracy").value
    equal = one(paper="eras", metric="equal_ranking_rate").value
    humans = one(paper="eras", metric="pair_accuracy", model="Humans").value
    assert abs(ranking - equal / 2 - humans) < 0.00051
    assert math.isclose(1 - ranking, one(paper="eras", metric="gper", model="Humans").value)


def test_dtails_languages() -> None:
    """Every language table has the nine languages, and the test sets sum to 1,377 sentences."""
    for table in "1234567":
        assert {result.language for result in find(paper="dtails", table=table)} == DTAILS_LANGUAGES
    assert sum(r.value for r in find(paper="dtails", table="2", metric="item_count")) == 1377
    assert find(paper="dtails", table="4", metric="fleiss_kappa", language="lv") == ()  # printed as NaN
    pabaks = find(paper="dtails", metric="pabak")
    assert len(pabaks) == 27
    for pabak in pabaks:
        (total,) = find(paper="dtails", metric="total_agreement", table=pabak.table, language=pabak.language)
        assert abs(2 * total.value - 1 - pabak.value) <= 0.00151


def test_oracle_decisions() -> None:
    """The label agreement and the number of "no" labels follow from Table 2's shares."""
    yes = one(paper="oracle", table="2", metric="yes_rate", setting="labelled yes")
    no = one(paper="oracle", table="2", metric="no_rate", setting="labelled no")
    assert yes.n is not None
    assert no.n is not None
    agreement = (yes.value * yes.n + no.value * no.n) / 5000
    assert abs(agreement - one(paper="oracle", metric="label_agreement").value) < 0.00005
    said_no = (1 - yes.value) * yes.n + no.value * no.n
    for phi in ("phi_or", "phi_and"):
        cases = [r for r in find(paper="oracle", table="5") if r.setting.startswith(phi)]
        assert len(cases) == 4
        assert sum(r.n or 0 for r in cases) == round(said_no) == 1832


def test_oracle_shares_are_counts() -> None:
    """Tables 4 and 5 print shares of whole cases, or the note says that no whole count fits."""
    for result in (*find(paper="oracle", table="4"), *find(paper="oracle", table="5")):
        if result.metric != "acceptance_rate":
            continue
        assert result.n is not None
        digits = len(f"{result.value * 100:g}".partition(".")[2])
        half = 0.5 * 10 ** -(digits + 2)
        fits = abs(round(result.value * result.n) / result.n - result.value) <= half * 1.001
        assert fits != ("no whole count" in result.note), result


def test_oracle_bounds() -> None:
    """The two bounds of section 3 are Theorem 3.1's test repeated ten times, and their notes say so."""
    for epsilon in (0.1, 0.05):
        bound = one(paper="oracle", metric="close_to_linear_probability", setting=f"epsilon = {epsilon}")
        assert abs(1 - (1 - 3 * epsilon + 6 * epsilon**2) ** 10 - bound.value) < 0.0011
        assert bound.n == 10
        assert "ten times" in bound.note
        assert "no bound applies" in bound.note


def test_find_matches_models_loosely_and_combines_filters() -> None:
    """Case, spaces, hyphens and underscores in a model's name are ignored; other letters are not."""
    assert find(paper="homophones", model="gpt 4") == find(paper="homophones", model="GPT-4") != ()
    assert find(paper="htest", model="gpt-3.5", k=50) == find(paper="htest", model="GPT 3.5", k=50) != ()
    assert find(paper="homophones", model="GPT-4x") == ()
    # A benchmark that is not installed, or whose registration names no file, has no printed results.
    assert load_published("glue") == ()
    # Filters combine with "and".
    assert find(paper="htest", table="5", task="average") == tuple(
        r for r in find(paper="htest", table="5") if r.task == "average"
    )


def test_malformed_row(tmp_path: Path) -> None:
    """A malformed row is a one-line error naming the file and the row."""
    path = tmp_path / "htest.csv"
    for row, said in (
        ("htest,6,m,t,accuracy,high,1,,en,,", "row 2: could not convert string to float: 'high'"),
        ("htest,6,m,t,accuracy,nan,1,,en,,", "row 2: value 'nan' is not finite"),
        ("htest,6,m,t,accuracy,0.5,1.5,,en,,", "row 2: invalid literal"),
        ("htest,6,m,t,accuracy,0.5,1,,en,", "line 2 has 10 fields, the header 11"),
    ):
        path.write_text(f"{','.join(COLUMNS)}\n{row}\n", encoding="utf-8")
        with pytest.raises(DataError, match=f"^[^\n]*{path}[^\n]*{said}[^\n]*$"):
            read_published(path)
