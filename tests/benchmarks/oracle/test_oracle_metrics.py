"""The oracle-checker's metrics, computed from values alone and compared with cases worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.items import DIRECTIONS
from pytest_llmprops.benchmarks.oracle.metrics import linearity_remarks, metric_rows
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import clopper_pearson
from tests.support.records import verdict

#: a sentence that is fully correct
GOOD: dict[str, float] = {
    "accepted": 1, "faithful": 1, "entities": 4, "tested": 4, "named": 3, "con_o": 10, "con_rs": 8, "samples": 10,
    "unread": 0, "tests": 5, "tests_passed": 5, "combinations": 5000, "combinations_passed": 4000, "changed": 16,
    "identity": 12, "labelled": 4, "labelled_extracted": 3, "labelled_tested": 2, "named_by_vote": 1, "rule": 1,
}  # fmt: skip
#: a rejected sentence
BAD = {
    **GOOD, "accepted": 0, "faithful": 0, "entities": 2, "tested": 1, "named": 1, "con_o": 5, "con_rs": 2,
    "tests_passed": 2, "combinations_passed": 500, "changed": 8, "identity": 0, "labelled": 2,
    "labelled_extracted": 1, "labelled_tested": 1, "named_by_vote": 0,
}  # fmt: skip
EMPTY = {"accepted": 0, "no_entities": 1, "entities": 0, "tested": 0, "labelled": 2, "labelled_extracted": 0}
UNMEASURABLE = {
    "accepted": 0, "unmeasurable": 1, "entities": 4, "tested": 0, "labelled": 4, "labelled_extracted": 4,
}  # fmt: skip
UNREAD = {"accepted": 0, "samples": 10, "unread": 10}


def record(
    task: str, number: int, values: Mapping[str, float], domain: str = "general", **more: Any
) -> VerdictRecord:
    """A verdict with these values."""
    return verdict(
        task, number, benchmark="oracle", id=f"oracle/{domain}/{number:03d}", values=values, **more
    )


def sentences(*values: Mapping[str, float], domain: str = "general") -> list[VerdictRecord]:
    """Verdicts on sentences."""
    return [record("linearity", n, v, domain) for n, v in enumerate(values)]


def rows(records: Iterable[VerdictRecord]) -> dict[tuple[str, str, str], Metric]:
    """Metrics by task, name and group."""
    metrics = list(metric_rows(list(records)))
    by_name = {(m.task, m.name, m.group): m for m in metrics}
    assert len(by_name) == len(metrics), "a metric stands twice"
    assert all(m.direction == DIRECTIONS[m.name] for m in metrics)
    return by_name


def values(records: Iterable[VerdictRecord], task: str) -> dict[str, float | None]:
    """Return ``name/group`` -> value of a task."""
    return {
        f"{name}/{group}".rstrip("/"): m.value for (t, name, group), m in rows(records).items() if t == task
    }


def test_linearity_by_hand() -> None:
    """Means are over tested sentences, shares are ratios of sums, and untested sentences are separate."""
    unfaithful = {**GOOD, "faithful": 0}
    measured = values(sentences(GOOD, BAD, unfaithful, EMPTY, UNMEASURABLE, UNREAD), "linearity")
    expected = {
        "no_entities_rate": 1 / 5, "acceptance_rate": 2 / 3, "faithful_acceptance_rate": 1 / 3,
        "entity_acceptance_rate": 8 / 9, "entity_acceptance_rate/labelled": 4 / 5,
        "label_overlap": (3 + 1 + 3 + 0 + 4) / (4 + 2 + 4 + 2 + 4),
        "a_rate": (0.8 + 0.1 + 0.8) / 3, "a_rate/accepted": 0.8, "identity_rate": 24 / 40, "named_share": 7 / 9,
        "named_share/by vote": 2 / 9,
    }  # fmt: skip
    assert {name: value for name, value in measured.items() if "spearman" not in name} == pytest.approx(
        expected
    )


def test_intervals_and_numbers() -> None:
    """A rate has the number of its units and an interval; a number per sentence has none."""
    metrics = rows(sentences(*[GOOD] * 7, *[BAD] * 3))
    accepted = metrics["linearity", "acceptance_rate", ""]
    assert (accepted.n, accepted.ci_low, accepted.ci_high) == (10, *clopper_pearson(7, 10)[:2])
    overlap = metrics["linearity", "label_overlap", ""]
    assert overlap.n == 34
    unlimited = {name for (_, name, _), m in metrics.items() if m.ci_low is None or m.ci_high is None}
    assert unlimited == {"spearman"}
    assert metrics["linearity", "a_rate", "accepted"].n == 7


def test_clusters_widen_intervals() -> None:
    """Sentences of one document are dependent, so their interval is a bootstrap over documents.

    Entities are accepted with their sentence, so their interval is as wide as that of the sentences.
    """
    alone = sentences(*[GOOD] * 12, *[{**GOOD, "accepted": 0}] * 12)
    together = [replace(r, cluster=f"oracle/p/{n // 6}") for n, r in enumerate(alone)]
    narrow, wide = (rows(some)["linearity", "acceptance_rate", ""] for some in (alone, together))
    entities = rows(alone)["linearity", "entity_acceptance_rate", ""]
    assert narrow.value == wide.value == entities.value == 0.5
    assert (narrow.n, entities.n) == (24, 96)
    limits = [(m.ci_low or 0, m.ci_high or 0) for m in (narrow, wide, entities)]
    assert limits[1][1] - limits[1][0] > limits[0][1] - limits[0][0] > 0
    assert limits[2] == pytest.approx(limits[0], abs=0.04)


def test_domains_have_separate_rows() -> None:
    """General and technical sentences have rows in addition to the total; a single domain has only the total."""
    both = [*sentences(GOOD), *sentences(BAD, EMPTY, domain="technical")]
    measured = values(both, "linearity")
    assert measured["acceptance_rate"] == 0.5
    assert (measured["acceptance_rate/general"], measured["acceptance_rate/technical"]) == (1.0, 0.0)
    assert measured["a_rate/general, accepted"] == 0.8
    assert "a_rate/technical, accepted" not in measured
    assert measured["label_overlap/technical"] == 1 / 4
    assert not any("/general" in name for name in values(sentences(GOOD), "linearity"))


def test_correlations_by_hand() -> None:
    """Spearman's coefficient is per domain, and missing for fewer than three sentences or a constant side."""
    some = [{**GOOD, "con_o": o, "con_rs": 4, "tests_passed": t, "combinations_passed": 9 - o, "entities": e}
            for o, t, e in ((1, 1, 3), (2, 3, 2), (3, 2, 1), (4, 5, 3))]  # fmt: skip
    measured = values(sentences(*some), "linearity")
    assert measured["spearman/a_test ~ con_o"] == pytest.approx(0.8)
    assert measured["spearman/a_rate ~ con_o"] == pytest.approx(-1.0)
    assert measured["spearman/entities ~ con_o"] == pytest.approx(-0.1054, abs=1e-4)
    assert not any("con_rs" in name for name in measured if name.startswith("spearman"))
    more = values([*sentences(*some), *sentences(GOOD, BAD, domain="technical")], "linearity")
    assert more["spearman/general, a_test ~ con_o"] == pytest.approx(0.8)
    assert not any(name.startswith("spearman/technical") for name in more)


def test_nothing_to_test() -> None:
    """Sentences without entities or readable replies give no acceptance rate."""
    assert values(sentences(EMPTY, EMPTY), "linearity") == {"no_entities_rate": 1.0, "label_overlap": 0.0}
    assert values(sentences(UNREAD), "linearity") == {}
    failed = record("linearity", 1, {}, status="error")
    assert values([failed], "linearity") == {}


def yes(
    number: int, label: float = 1, accepted: bool = True, phi_or: bool = True, **more: float
) -> VerdictRecord:
    """A pair that the model calls equivalent, and that is aligned."""
    proof = {"potential_or": 1, "phi_or": float(phi_or), "phi_and": 0}
    return record(
        "yes", number, {"said_yes": 1, "label": label, "accepted": float(accepted), **proof, **more}, "pair"
    )


def no(
    number: int, trust: tuple[int, int], category: tuple[int, int] = (4, 4), label: float = 0, **more: float
) -> VerdictRecord:
    """A pair that the model calls not equivalent; ``trust`` and ``category`` are by "or" and by "and"."""
    result: dict[str, float] = {"said_yes": 0, "label": label, "accepted": float(trust[0] == 1), **more}
    result["accepted_paper"] = float(trust[0] in (1, 3))
    for phi, code, place in zip(("or", "and"), trust, category, strict=True):
        result |= {
            f"trust_{phi}": code,
            f"trust_paper_{phi}": float(code in (1, 3)),
            f"category_{phi}": place,
        }
    return record("no", number, result, "pair")


def unreadable(number: int) -> VerdictRecord:
    """A pair with an unreadable answer; its task is its label's."""
    return record("yes", number, {"said_yes": -1, "label": 1, "accepted": 0, "accepted_paper": 0}, "pair")


def test_yes_by_hand() -> None:
    """The share of "yes" answers that are proved, and their agreement with the label.

    A "yes" whose proof depends on unreadable replies, or was not tried, is in no acceptance rate.
    """
    some = [
        yes(0), yes(1, label=0, accepted=False, phi_or=False), yes(2, label=-1, phi_and=1), unreadable(3),
    ]  # fmt: skip
    expected = {"acceptance_rate": 2 / 3, "label_agreement": 1 / 2}
    assert values(some, "yes") == pytest.approx(expected)
    some += [
        yes(4, undecided_or=0, undecided_and=1, trees_missing=0),
        yes(5, accepted=False, phi_or=False, trees_missing=1),
    ]
    assert rows(some)["yes", "acceptance_rate", ""].n == 4


def test_no_by_hand() -> None:
    """The "no" answers accepted under each rule, the reasons for the others, and the categories of table 5.

    A "no" without readable tests counts in no rate of the paper's rule.
    """
    some = [
        no(0, (1, 2), (1, 1)),
        no(1, (2, 2), (1, 2)),
        no(2, (3, 1), (2, 4), label=1),
        no(3, (4, 4)),
        no(4, (5, 5)),
    ]
    assert values(some, "no") == pytest.approx({
        "acceptance_rate": 1 / 3, "acceptance_rate_paper": 2 / 3, "label_agreement": 4 / 5,
        "acceptance_rate_paper/AI or": 1 / 2, "acceptance_rate_paper/ĀI or": 1.0,
        "acceptance_rate_paper/AI and": 0.0, "acceptance_rate_paper/ĀI and": 0.0,
        "acceptance_rate_paper/ĀĪ and": 1.0,
    })  # fmt: skip


def test_tables_2_and_3_by_hand() -> None:
    """Over all pairs: agreement, answers by label, and provable pairs by label and by answer.

    Always yes is accepted on the two aligned pairs, of which one is labelled equivalent.
    """
    some = [
        yes(0),
        yes(1, label=0, phi_or=False),
        no(2, (1, 1), label=1, phi_or=1, phi_and=0),
        no(3, (1, 1), phi_or=0, phi_and=0),
        no(4, (1, 1), phi_or=1, phi_and=0),
        unreadable(5),
    ]
    assert values(some, "pairs") == pytest.approx({
        "coverage": 1.0, "accepted_precision": 3 / 5,
        "acceptance_rate": 1.0, "null_coverage/always yes": 2 / 5, "null_coverage/always no": 1.0,
        "null_coverage/a coin": 7 / 10, "null_precision/always yes": 1 / 2, "null_precision/always no": 3 / 5,
        "null_precision/a coin": 4 / 7,
        "label_agreement": 3 / 5, "yes_rate/label yes": 1 / 2, "yes_rate/label no": 1 / 3,
        "potential_rate/label yes": 1.0, "potential_rate/label no": 1.0,
        "provable_rate/or, label yes": 1.0, "provable_rate/or, label no": 1 / 3,
        "provable_rate/or, answer yes": 1 / 2, "provable_rate/or, answer no": 2 / 3,
        "provable_rate/and, label yes": 0.0, "provable_rate/and, label no": 0.0,
        "provable_rate/and, answer yes": 0.0, "provable_rate/and, answer no": 0.0,
    })  # fmt: skip


def test_pairs_without_a_proof_give_no_rate() -> None:
    """If only "yes" answers were given to the prover, provable pairs are counted for these alone."""
    measured = values([yes(0), no(1, (1, 1)), no(2, (1, 1), label=1)], "pairs")
    assert {name for name in measured if "provable" in name} == {
        "provable_rate/or, answer yes",
        "provable_rate/and, answer yes",
    }


def askings(yes: int, no: int, unreadable: int = 0) -> dict[str, float]:
    """The values of repeated answers."""
    alike = not unreadable and not (yes and no)
    return {
        "answers_yes": yes,
        "answers_no": no,
        "answers_unreadable": unreadable,
        "consistent": float(alike),
    }


def test_sanity_checks_by_hand() -> None:
    """Consistency over repeats, table 4 by the first answer, and random pairs all exclude what was not tested.

    A case whose readable answers are the same, but that also has an unreadable one, is in no consistency rate.
    """
    many = [askings(1, 4), askings(5, 0), askings(0, 5), askings(0, 5), askings(0, 0, 5), askings(4, 0, 1)]
    asked = [record("consistency", n, result, "pair") for n, result in enumerate(many)]
    assert values(asked, "consistency") == {"consistency_rate": 3 / 4}
    assert rows(asked)["consistency", "consistency_rate", ""].n == 4
    # By "or", the no is triangular evidence; by "and", it is not tested.
    tested = {"trust_or": 2, "trust_paper_or": 0, "trust_and": 5, "trust_paper_and": 0}
    many = [
        {**askings(5, 0), "said_yes": 1, "phi_or": 1, "phi_and": 0},
        {**askings(4, 1), "said_yes": 1, "phi_or": 0, "phi_and": 0},
        {**askings(0, 5), "said_yes": 0, "phi_or": 1, "phi_and": 1, **tested},
        {**askings(0, 0, 5), "said_yes": -1, "phi_or": 1, "phi_and": 1},
        {**askings(3, 0, 2), "said_yes": -1, "phi_or": 1, "phi_and": 1},
    ]
    own = [record("own_paraphrase", n, result, "pair") for n, result in enumerate(many)]
    own.append(record("own_paraphrase", 5, {}, "pair", status="unparsed"))
    assert values(own, "own_paraphrase") == pytest.approx({
        "consistency_rate": 2 / 3, "yes_rate": 2 / 3,
        "provable_rate/or, answer yes": 1 / 2, "provable_rate/and, answer yes": 0.0,
        "provable_rate/or, answer no": 1.0, "provable_rate/and, answer no": 1.0,
        "acceptance_rate_paper/or, answer no": 0.0,
    })  # fmt: skip
    many = [
        {"said_yes": 0, "accepted": 1, "phi_or": 0, "phi_and": 0},
        {"said_yes": 0, "accepted": 0, "phi_or": 1, "phi_and": 0},
        {"said_yes": 1, "accepted": 1, "phi_or": 1, "phi_and": 1},
        {"said_yes": -1, "accepted": 0},
    ]
    drawn = [record("random_pair", n, result, "random") for n, result in enumerate(many)]
    assert values(drawn, "random_pair") == pytest.approx({
        "acceptance_rate/answer no": 1 / 2, "yes_rate": 1 / 3, "provable_rate/or": 2 / 3, "provable_rate/and": 1 / 3,
    })  # fmt: skip


def test_remarks_on_sentences_by_hand() -> None:
    """They say what is accepted, what of it is correct, and how many labelled entities are extracted."""
    bound, counts, completeness = linearity_remarks(sentences(GOOD, BAD, {**GOOD, "faithful": 0}))
    assert bound.startswith("accepted sentences: an extractor 0.1-far from linear")
    assert counts.startswith("sentences: 2 of 3 are accepted as in the paper; of these, 1 are also faithful")
    assert completeness == "completeness: 70.0% of 10 labelled entities are extracted"
    [warning, _] = linearity_remarks(sentences(EMPTY, EMPTY))
    assert warning == "warning: the answer is that there are no entities for 2 of 2 sentences"
    own = [{**EMPTY, "labelled": 0}, {**UNMEASURABLE, "labelled": 0}]
    assert list(linearity_remarks(sentences(*own))) == ["completeness is not measured: no entity is labelled"]
