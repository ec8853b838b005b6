"""The metrics of the oracle-checker, computed only from the values of verdicts (Zeng et al., section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES
from pytest_llmprops.benchmarks.oracle.paraphrase_record import PHIS, phi_of
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import mean_interval

#: the task of rows over all pairs, whatever the answer
PAIRS = "pairs"
CONSISTENCY, OWN, RANDOM = "consistency", "own_paraphrase", "random_pair"
#: number in a verdict's values -> category of table 5
CATEGORIES = {1: "AI", 2: "ĀI", 3: "AĪ", 4: "ĀĪ"}
#: metric -> number in a verdict's values, for the reasons why a "no" is not accepted
REJECTIONS = {"triangular_rate": 2, "inconsistent_rate": 3, "unreadable_rate": 4, "untested_rate": 5}
#: reasons that the paper's rule does not cover, because it needs answers to look for triangular evidence
_NOT_JUDGED = (REJECTIONS["unreadable_rate"], REJECTIONS["untested_rate"])
DIRECTIONS = {
    "acceptance_rate": "higher",
    "entity_acceptance_rate": "higher",
    "a_rate": "higher",
    "a_test": "higher",
    "con_o": "higher",
    "con_rs": "higher",
    "entities": "none",
    "identity_rate": "higher",
    "lost_rate": "lower",
    "both_rate": "lower",
    "extra_per_sentence": "lower",
    "linear_not_faithful_rate": "lower",
    "faithful_acceptance_rate": "higher",
    "vacuous_test_rate": "none",
    "no_informative_test_rate": "none",
    "no_entities_rate": "none",
    "unmeasurable_rate": "none",
    "named_share": "none",
    "label_overlap": "higher",
    "labelled_entity_acceptance_rate": "higher",
    "spearman": "none",
    "label_agreement": "higher",
    "yes_rate": "none",
    "provable_rate": "none",
    "acceptance_rate_paper": "higher",
    "triangular_rate": "lower",
    "inconsistent_rate": "lower",
    "unreadable_rate": "lower",
    "untested_rate": "none",
    "one_source_rate": "lower",
    "other_only_rate": "none",
    "parse_failure_rate": "none",
    "consistency_rate": "higher",
}
Values = Mapping[str, float]


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of every task, language and source, and those of pairs over both answers."""
    pairs: dict[tuple[str, str], list[VerdictRecord]] = {}
    for place, members in by_place(records).items():
        task, language, source = place
        if task == LINEARITY:
            yield from _linearity(place, members)
        elif task in (YES, NO):
            pairs.setdefault((language, source), []).extend(members)
            yield from (_yes if task == YES else _no)(place, [r.values for r in members])
        else:
            yield from _sanity(place, [r.values for r in members])
    for (language, source), members in pairs.items():
        yield from _pairs((PAIRS, language, source), [r.values for r in members])


# ---- linearity


def _domain(record: VerdictRecord) -> str:
    """Return the second part of the item's id: ``general``, ``technical`` …"""
    return record.id.split("/")[1]


def _linearity(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    read = [r for r in members if "entities" in r.values]
    yield rate(place, "no_entities_rate", [bool(r.values.get("no_entities")) for r in read], "none")
    yield rate(place, "unmeasurable_rate", [bool(r.values.get("unmeasurable")) for r in read], "none")
    vacuous = [bool(r.values["no_informative_test"]) for r in read if "no_informative_test" in r.values]
    if vacuous:
        yield rate(place, "no_informative_test_rate", vacuous, "none")
    domains = dict.fromkeys(map(_domain, read))
    groups = {"": read}
    if len(domains) > 1:
        groups |= {name: [r for r in read if _domain(r) == name] for name in domains}
    for group, group_records in groups.items():
        # This includes sentences without extracted entities and sentences that cannot be tested.
        labelled = _labelled(group_records)
        yield from _share(place, "label_overlap", labelled, "labelled_extracted", "labelled", group)
        tested = [r for r in group_records if r.values.get("tests")]
        if tested:
            yield from _tested(place, group, tested)
            yield from _correlations(place, group, [r.values for r in tested])


def _labelled(records: Iterable[VerdictRecord]) -> list[Values]:
    return [r.values for r in records if r.values.get("labelled")]


def _tested(place: Place, group: str, records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of sentences with something to test. Those accepted trivially are counted separately."""
    values = [r.values for r in records]
    mean = _mean(place, records)
    yield mean("acceptance_rate", lambda v: v["accepted"], group)
    covered = [{**v, "covered": v["entities"] * v["accepted"]} for v in values]
    yield from _share(place, "entity_acceptance_rate", covered, "covered", "entities", group)
    both = [{**v, "covered": v["labelled_extracted"] * v["accepted"]} for v in _labelled(records)]
    yield from _share(place, "labelled_entity_acceptance_rate", both, "covered", "labelled_extracted", group)
    yield mean("a_rate", _a_rate, group)
    accepted = [r for r in records if r.values["accepted"]]
    if accepted:
        yield _mean(place, accepted)("a_rate", _a_rate, f"{group}, accepted" if group else "accepted")
    yield mean("a_test", lambda v: v["tests_passed"] / v["tests"], group)
    yield mean("con_o", lambda v: v["con_o"] / v["samples"], group)
    yield mean("con_rs", lambda v: v["con_rs"] / v["samples"], group)
    yield mean("entities", lambda v: v["entities"], group)
    yield mean("linear_not_faithful_rate", lambda v: v["linear_not_faithful"], group)
    informative = [r for r in records if not r.values.get("no_informative_test")]
    if informative:
        yield _mean(place, informative)("faithful_acceptance_rate", _is_faithful, group)
    drawn = [
        {**v, "vacuous": v["tests"] - v["informative_tests"]} for v in values if "informative_tests" in v
    ]
    yield from _share(place, "vacuous_test_rate", drawn, "vacuous", "tests", group)
    yield from _share(place, "identity_rate", values, "identity", "changed", group)
    yield from _share(place, "named_share", values, "named", "tested", group)
    slots = [{**v, "slots": v["sentences"] * v["tested"]} for v in values]
    yield from _share(place, "lost_rate", slots, "lost", "slots", group)
    yield from _share(place, "both_rate", slots, "both", "slots", group)
    yield from _share(place, "extra_per_sentence", values, "extra", "sentences", group)


def _is_faithful(values: Values) -> float:
    return float(values["accepted"] and not values["linear_not_faithful"])


def _a_rate(values: Values) -> float:
    return values["combinations_passed"] / values["combinations"]


def _mean(
    place: Place, records: Sequence[VerdictRecord]
) -> Callable[[str, Callable[[Values], float], str], Metric]:
    """Return a function for the mean over sentences with its interval, which accounts for clusters."""
    clusters = [r.cluster for r in records]

    def row(name: str, number: Callable[[Values], float], group: str) -> Metric:
        numbers = [number(r.values) for r in records]
        value = math.fsum(numbers) / len(numbers)
        low: float | None = None
        high: float | None = None
        if all(0 <= n <= 1 for n in numbers):
            low, high, _ = mean_interval(numbers, clusters)
        return Metric(*place, name, value, len(numbers), group, low, high, DIRECTIONS[name])

    return row


def _share(
    place: Place, name: str, values: Sequence[Values], part: str, whole: str, group: str = ""
) -> Iterator[Metric]:
    """Yield a ratio of sums, without an interval because its parts are not independent."""
    total = math.fsum(v[whole] for v in values)
    if total:
        value = math.fsum(v[part] for v in values) / total
        yield Metric(*place, name, value, int(total), group, direction=DIRECTIONS[name])


def _correlations(place: Place, group: str, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield Spearman's rank correlations (table 1), except if one of the two values does not vary."""
    prefix = f"{group}, " if group else ""
    rows: dict[str, Callable[[Values], float]] = {
        "a_test": lambda v: v["tests_passed"],
        "a_rate": _a_rate,
        "entities": lambda v: v["entities"],
    }
    columns: dict[str, Callable[[Values], float]] = {
        "con_o": lambda v: v["con_o"],
        "con_rs": lambda v: v["con_rs"],
        "entities": lambda v: v["entities"],
    }
    if len(values) < 3:
        return
    from scipy.stats import spearmanr

    for row, first in rows.items():
        for column, second in columns.items():
            a, b = [first(v) for v in values], [second(v) for v in values]
            if row != column and len(set(a)) > 1 and len(set(b)) > 1:
                rho = float(spearmanr(a, b).statistic)
                yield Metric(*place, "spearman", rho, len(values), f"{prefix}{row} ~ {column}")


# ---- pairs


def _hits(values: Iterable[Values], name: str) -> list[bool]:
    return [v[name] > 0 for v in values if name in v]


def _yes(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    said = [v for v in values if v.get("said_yes") == 1]
    decided = [v for v in said if not v.get("trees_missing") and not v.get(f"undecided_{phi_of(v)}")]
    yield rate(place, "acceptance_rate", _hits(decided, "accepted"), "higher")
    for phi in PHIS:
        undecided = [v.get(f"undecided_{phi}", 0.0) == 1 for v in said]
        decided = [
            v for v, unread in zip(said, undecided, strict=True) if not (unread or v.get("trees_missing"))
        ]
        yield rate(place, "acceptance_rate", _hits(decided, f"phi_{phi}"), "higher", group=phi)
        yield rate(place, "unreadable_rate", undecided, "lower", group=phi)
    yield rate(place, "untested_rate", [v.get("trees_missing") == 1 for v in said], "none")
    yield from _agreement(place, said)


def _no(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    said = [v for v in values if v.get("said_yes") == 0]
    judged = [v for v in said if v.get(f"trust_{phi_of(v)}") not in _NOT_JUDGED]
    yield rate(place, "acceptance_rate", _hits(judged, "accepted"), "higher")
    yield rate(place, "acceptance_rate_paper", _hits(judged, "accepted_paper"), "higher")
    other_only = [v["accepted_paper"] == 1 and v.get(f"other_only_{phi_of(v)}", 0) > 0 for v in judged]
    yield rate(place, "other_only_rate", other_only, "none")
    for phi in PHIS:
        tested = [v for v in said if v.get(f"trust_{phi}") not in (None, *_NOT_JUDGED)]
        for number, name in CATEGORIES.items():
            members = [v for v in tested if v.get(f"category_{phi}") == number]
            if members:
                hits = [v[f"trust_{phi}"] == 1 for v in members]
                yield rate(place, "acceptance_rate", hits, "higher", group=f"{name} {phi}")
                hits = [v[f"trust_paper_{phi}"] == 1 for v in members]
                yield rate(place, "acceptance_rate_paper", hits, "higher", group=f"{name} {phi}")
        drawn = [v[f"fair_coin_{phi}"] != 1 for v in said if v.get(f"tests_{phi}")]
        yield rate(place, "one_source_rate", drawn, "lower", group=phi)
        trust = [v[f"trust_{phi}"] for v in said if f"trust_{phi}" in v]
        for name, code in REJECTIONS.items():
            yield rate(place, name, [t == code for t in trust], DIRECTIONS[name], group=phi)
    yield from _agreement(place, said)


def _agreement(place: Place, said: Sequence[Values]) -> Iterator[Metric]:
    labelled = [v["said_yes"] == v["label"] for v in said if v["label"] >= 0]
    if labelled:
        yield rate(place, "label_agreement", labelled, "higher")


def _pairs(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of tables 2 and 3, by label and by answer."""
    said = [v for v in values if v.get("said_yes", -1) >= 0]
    yield from _agreement(place, said)
    answers = [v["said_yes"] < 0 for v in values if "said_yes" in v]
    yield rate(place, "unreadable_rate", answers, "lower")
    yield rate(place, "parse_failure_rate", _hits(values, "trees_missing"), "none")
    groups = {
        "label yes": [v for v in said if v["label"] == 1],
        "label no": [v for v in said if v["label"] == 0],
        "answer yes": [v for v in said if v["said_yes"] == 1],
        "answer no": [v for v in said if v["said_yes"] == 0],
    }
    for name, members in groups.items():
        if name.startswith("label") and members:
            yield rate(place, "yes_rate", [v["said_yes"] == 1 for v in members], "none", group=name)
        for phi in PHIS:
            proved = _hits(members, f"phi_{phi}")
            # Without the setting ``reference``, only pairs with the answer yes have a proof attempt.
            if proved and len(proved) == len(members):
                yield rate(place, "provable_rate", proved, "none", group=f"{phi}, {name}")


def _sanity(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    said = [v for v in values if v.get("said_yes", -1) >= 0]
    if place[0] == RANDOM:
        no = [v for v in said if v["said_yes"] == 0]
        yield rate(place, "acceptance_rate", _hits(no, "accepted"), "higher", group="answer no")
        yield rate(place, "yes_rate", [v["said_yes"] == 1 for v in said], "none")
        for phi in PHIS:
            yield rate(place, "provable_rate", _hits(said, f"phi_{phi}"), "none", group=phi)
        return
    # If answers cannot be read and the others are the same, the case is neither consistent nor inconsistent.
    asked = [v for v in values if "answers_unreadable" in v]
    undecided = [bool(v["answers_unreadable"] and not (v["answers_yes"] and v["answers_no"])) for v in asked]
    read = [v for v, unread in zip(asked, undecided, strict=True) if not unread]
    yield rate(place, "consistency_rate", _hits(read, "consistent"), "higher")
    yield rate(place, "unreadable_rate", undecided, "lower")
    if place[0] == OWN:
        yield rate(place, "yes_rate", [v["said_yes"] == 1 for v in said], "none")
        for answer, number in (("yes", 1), ("no", 0)):
            members = [v for v in said if v["said_yes"] == number]
            for phi in PHIS:
                hits = _hits(members, f"phi_{phi}")
                yield rate(place, "provable_rate", hits, "none", group=f"{phi}, answer {answer}")
