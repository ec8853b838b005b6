"""The metrics of the oracle-checker, computed only from the values of verdicts (Zeng et al., section 5).

The unit of a rate is a sentence, an entity, a changed sentence, a combination of replies, or a pair. Units of a
sentence, and sentences of a document, are not independent: intervals are over clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.items import DIRECTIONS, LINEARITY, NO, OWN, PAIRS, RANDOM, YES
from pytest_llmprops.benchmarks.oracle.linearity import bound_of
from pytest_llmprops.benchmarks.oracle.nulls import NULLS, Pairs, conclusion
from pytest_llmprops.benchmarks.oracle.settings import PHIS, RULES, OracleSettings
from pytest_llmprops.benchmarks.oracle.trust import CATEGORIES, source_revealed
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import mean_interval

Values = Mapping[str, float]
#: outcomes of the test of a "no" (``trust.OUTCOME_CODES``) that the paper's rule does not cover: unreadable, untested
NOT_JUDGED = (4, 5)
_Number = Callable[[Values], float]
#: the two sides of each rank correlation (table 1)
_ROWS, _COLUMNS = ("a_test", "a_rate", "entities"), ("con_o", "con_rs", "entities")


def domain_of(record: VerdictRecord) -> str:
    """Return the second part of the item's id: ``general``, ``technical`` …"""
    return record.id.split("/")[1]


def sentence_metrics(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of the sentences of one place, in total and by domain if there are several."""
    read = [r for r in members if "entities" in r.values]
    domains = dict.fromkeys(map(domain_of, read))
    groups = {"": read}
    if len(domains) > 1:
        groups |= {name: [r for r in read if domain_of(r) == name] for name in domains}
    for group, records in groups.items():
        yield from _ratio(place, "no_entities_rate", group, records, lambda v: v.get("no_entities", 0.0))
        labelled = [r for r in records if r.values.get("labelled")]
        overlap = "labelled_extracted", "labelled"
        yield from _ratio(place, "label_overlap", group, labelled, *map(_value, overlap), by_unit=True)
        yield from _tested(place, group, [r for r in records if r.values.get("tests")])


def _tested(place: Place, group: str, records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of sentences with something to test."""
    labelled = [r for r in records if r.values.get("labelled")]
    accepted = [r for r in records if r.values["accepted"]]
    prefix = f"{group}, " if group else ""
    yield from _ratio(place, "acceptance_rate", group, records, _value("accepted"))
    yield from _ratio(place, "faithful_acceptance_rate", group, records, _value("faithful"))
    for name, some, whole in (
        (group, records, "tested"), (f"{prefix}labelled", labelled, "labelled_tested"),
    ):  # fmt: skip
        hits = _product("accepted", whole)
        yield from _ratio(place, "entity_acceptance_rate", name, some, hits, _value(whole), by_unit=True)
    yield from _ratio(place, "a_rate", group, records, a_rate)
    yield from _ratio(place, "a_rate", f"{prefix}accepted", accepted, a_rate)
    shares = (
        ("identity_rate", group, "identity", "changed"), ("named_share", group, "named", "tested"),
        ("named_share", f"{prefix}by vote", "named_by_vote", "tested"),
    )  # fmt: skip
    for name, shown, part, every in shares:
        yield from _ratio(place, name, shown, records, _value(part), _value(every), by_unit=True)
    yield from _correlations(place, prefix, [r.values for r in records])


def _value(name: str) -> _Number:
    return lambda values: values[name]


def _product(one: str, other: str) -> _Number:
    return lambda values: values[one] * values[other]


def _one(values: Values) -> float:
    return 1.0


def a_rate(values: Values) -> float:
    """Return the share of combinations of samples that pass."""
    return values["combinations_passed"] / values["combinations"]


def a_test(values: Values) -> float:
    """Return the share of tests that pass."""
    return values["tests_passed"] / values["tests"]


def _ratio(
    place: Place,
    name: str,
    group: str,
    records: Sequence[VerdictRecord],
    part: _Number,
    whole: _Number = _one,
    *,
    by_unit: bool = False,
) -> Iterator[Metric]:
    """Yield the sum of ``part`` over the sum of ``whole``, if there is any, with its interval over clusters.

    :param by_unit: whether ``part`` counts units, such as entities, out of ``whole``; otherwise it is a share.
    """
    units = [(part(r.values), int(whole(r.values)), r.cluster) for r in records]
    total = sum(n for _, n, _ in units)
    if not total:
        return
    scores, clusters = [part for part, _, _ in units], [cluster for _, _, cluster in units]
    if by_unit:
        scores = [score for hits, n, _ in units for score in (*[1.0] * int(hits), *[0.0] * (n - int(hits)))]
        clusters = [cluster for _, n, cluster in units for _ in range(n)]
    low, high, _ = mean_interval(scores, clusters)
    value = math.fsum(scores) / total
    yield Metric(*place, name, value, total, group, low, high, DIRECTIONS[name])


def _correlations(place: Place, prefix: str, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield Spearman's rank correlations (table 1), except if one of the two values does not vary."""
    if len(values) < 3:
        return
    from scipy.stats import spearmanr

    columns = {name: [v[name] for v in values] for name in _COLUMNS}
    columns |= {"a_test": list(map(a_test, values)), "a_rate": list(map(a_rate, values))}
    for row, column in ((row, column) for row in _ROWS for column in _COLUMNS if row != column):
        first, second = columns[row], columns[column]
        if len(set(first)) > 1 and len(set(second)) > 1:
            rho = float(spearmanr(first, second).statistic)
            yield Metric(*place, "spearman", rho, len(values), f"{prefix}{row} ~ {column}")


def linearity_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield what an acceptance means, and how many entities are extracted, which faithfulness does not tell."""
    values = [r.values for r in records if "entities" in r.values]
    tested = [v for v in values if v.get("tests")]
    for text in dict.fromkeys(bound_of(_settings_of(v)).text for v in tested):
        yield f"accepted sentences: {text}"
    if tested:
        accepted, faithful = (sum(v[name] for v in tested) for name in ("accepted", "faithful"))
        yield (
            f"sentences: {accepted:.0f} of {len(tested)} are accepted as in the paper; of these, {faithful:.0f} are"
            " also faithful, which makes them correct"
        )
    empty = [v for v in values if v.get("no_entities")]
    if 2 * len(empty) > len(values):
        yield f"warning: the answer is that there are no entities for {len(empty)} of {len(values)} sentences"
    if whole := sum(v.get("labelled", 0) for v in values):
        extracted = sum(v.get("labelled_extracted", 0) for v in values)
        yield f"completeness: {extracted / whole:.1%} of {whole:.0f} labelled entities are extracted"
    elif values:
        yield "completeness is not measured: no entity is labelled"


def _settings_of(values: Values) -> OracleSettings:
    """Return the settings that the bound of a tested sentence depends on, from its values."""
    samples, rule = int(values["samples"]), RULES[int(values["rule"])]
    return OracleSettings(samples=samples, tests=int(values["tests"]), rule=rule)


#: minimum number of tests of a no that say whether word overlap names the source
FEWEST_TESTS = 10
#: maximum share of tests whose source word overlap may name
MOST_REVEALED = 0.6

# The metrics of pairs of sentences (Zeng et al., section 5.2). A pair is the unit of every rate.


def _hits(values: Iterable[Values], name: str) -> list[bool]:
    return [v[name] > 0 for v in values if name in v]


def yes_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of answers of yes."""
    said = [v for v in values if v.get("said_yes") == 1]
    yield rate(place, "acceptance_rate", _hits(filter(is_decided, said), "accepted"), "higher")
    for phi in PHIS:
        undecided = [v.get(f"undecided_{phi}", 0.0) == 1 for v in said]
        decided = [
            v for v, unread in zip(said, undecided, strict=True) if not (unread or v.get("trees_missing"))
        ]
        yield rate(place, "acceptance_rate", _hits(decided, f"phi_{phi}"), "higher", group=phi)
    yield from _agreement(place, said)


def no_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of answers of no, and table 5."""
    said = [v for v in values if v.get("said_yes") == 0]
    judged = [v for v in said if is_decided(v)]
    yield rate(place, "acceptance_rate", _hits(judged, "accepted"), "higher")
    yield rate(place, "acceptance_rate_paper", _hits(judged, "accepted_paper"), "higher")
    for phi in PHIS:
        tested = [v for v in said if v.get(f"trust_{phi}") not in (None, *NOT_JUDGED)]
        for number, name in CATEGORIES.items():
            members = [v for v in tested if v.get(f"category_{phi}") == number]
            if members:
                hits = [v[f"trust_{phi}"] == 1 for v in members]
                yield rate(place, "acceptance_rate", hits, "higher", group=f"{name} {phi}")
                hits = [v[f"trust_paper_{phi}"] == 1 for v in members]
                yield rate(place, "acceptance_rate_paper", hits, "higher", group=f"{name} {phi}")
    yield from _agreement(place, said)


def _agreement(place: Place, said: Sequence[Values]) -> Iterator[Metric]:
    labelled = [v["said_yes"] == v["label"] for v in said if v["label"] >= 0]
    if labelled:
        yield rate(place, "label_agreement", labelled, "higher")


def all_pairs_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of tables 2 and 3, by label and by answer."""
    said = [v for v in values if v.get("said_yes", -1) >= 0]
    yield from _agreement(place, said)
    yield from _accepted_pairs(place, values)
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


def is_decided(values: Values) -> bool:
    """Return True if the answer on a pair is accepted or rejected."""
    if values.get("said_yes") == 1:
        return not values.get("trees_missing") and not values.get("undecided_or")
    return values.get("said_yes") == 0 and values.get("trust_or") not in NOT_JUDGED


def _accepted_pairs(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield precision and coverage of the model and of the null oracles, and what is accepted of right answers."""
    decided = [v for v in values if is_decided(v)]
    if decided:
        yield rate(place, "acceptance_rate", _hits(decided, "accepted"), "higher")
    pairs = Pairs(values)
    if pairs.values:
        yield rate(place, "coverage", _hits(pairs.values, "accepted"), "higher")
        yield rate(place, "accepted_precision", pairs.accepted, "higher")
    drawn = drawn_overlaps(pairs.values)
    if drawn:
        yield Metric(*place, "source_revealed_rate", source_revealed(drawn), len(drawn), direction="lower")
    for null, group in zip(pairs.nulls, NULLS, strict=False):
        count = len(pairs.values)
        yield Metric(*place, "null_coverage", null.coverage, count, group, direction="none")
        if null.precision is not None:
            n = round(null.coverage * count)
            yield Metric(*place, "null_precision", null.precision, n, group, direction="none")
    for label, group in ((1, "label yes"), (0, "label no")):
        aligned = [v for v in values if v.get("label") == label and "potential_or" in v]
        if aligned:
            hits = [v["potential_or"] > 0 for v in aligned]
            yield rate(place, "potential_rate", hits, "none", group=group)


def drawn_overlaps(values: Iterable[Values]) -> list[tuple[float, float]]:
    """Return the overlaps of the paraphrases of tests with their source and with the other sentence."""
    return [(v["overlap_own_or"], v["overlap_other_or"]) for v in values if "overlap_own_or" in v]


def pair_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield what is accepted of the answers on pairs, compared with null oracles, and the bound of a no."""
    sources: dict[str, list[Values]] = {}
    for record in records:
        sources.setdefault(record.source, []).append(record.values)
    for source, values in sources.items():
        pairs = Pairs(values)
        if pairs.values:
            yield from conclusion(pairs, f"{PAIRS}: {source}" if len(sources) > 1 else PAIRS)
    yield from _no_bound([r.values for r in records if r.task == NO])


def _no_bound(no: Sequence[Values]) -> Iterator[str]:
    """Yield the probability with which a model passes the tests of a no without knowing the source, if it holds."""
    tested = [v for v in no if v.get("trust_or") not in (None, *NOT_JUDGED)]
    if not tested:
        return
    lenient = sum(v["accepted"] > 0 and v.get("trust_or") != 1 for v in tested)
    if lenient:
        yield (
            f"accepted no: no bound: {lenient} of {len(tested)} answers failed a test, but without triangular evidence,"
            " which alone rejects as printed (section 5.2.3)"
        )
        return
    drawn = drawn_overlaps(tested)
    many, limit = len(drawn), MOST_REVEALED
    if many >= FEWEST_TESTS and (revealed := source_revealed(drawn)) > limit:
        yield (
            f"accepted no: no bound: word overlap alone passes the tests of {revealed:.1%} of {many}"
            f" answers (at most {limit:.1%} is allowed), so paraphrases reveal their source"
        )
        return
    one_sided = [v for v in tested if not v["fair_coin_or"]]
    unfair = sum(bool(v["accepted"]) for v in one_sided)
    exception = (
        f"; no bound for {unfair}, where only one sentence had paraphrases to draw from (so in"
        f" {len(one_sided)} of {len(tested)} tested answers of no)"
        if unfair
        else ""
    )
    yield (
        f"accepted no: a model whose answers do not depend on the coin passes its test with probability"
        f" at most 0.5{exception}"
        + ("" if many >= FEWEST_TESTS else "; too few tests to say whether word overlap names the source")
    )


def sanity_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of a sanity check, table 4 and appendix B.3.3."""
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
    if place[0] == OWN:
        yield rate(place, "yes_rate", [v["said_yes"] == 1 for v in said], "none")
        for answer, number in (("yes", 1), ("no", 0)):
            members = [v for v in said if v["said_yes"] == number]
            for phi in PHIS:
                hits = _hits(members, f"phi_{phi}")
                yield rate(place, "provable_rate", hits, "none", group=f"{phi}, answer {answer}")
        for phi in PHIS:
            tested = [v for v in said if v.get(f"trust_{phi}") not in (None, *NOT_JUDGED)]
            if tested:
                for name, key in (("acceptance_rate", "trust"), ("acceptance_rate_paper", "trust_paper")):
                    hits = [v[f"{key}_{phi}"] == 1 for v in tested]
                    yield rate(place, name, hits, "higher", group=f"{phi}, answer no")


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of every task, language and source, and those of pairs over both answers."""
    pairs: dict[tuple[str, str], list[VerdictRecord]] = {}
    for place, members in by_place(records).items():
        task, language, source = place
        if task == LINEARITY:
            yield from sentence_metrics(place, members)
        elif task in (YES, NO):
            pairs.setdefault((language, source), []).extend(members)
            yield from (yes_metrics if task == YES else no_metrics)(place, [r.values for r in members])
        else:
            yield from sanity_metrics(place, [r.values for r in members])
    for (language, source), members in pairs.items():
        yield from all_pairs_metrics((PAIRS, language, source), [r.values for r in members])


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield the bound of an acceptance, and a note that a rejected answer is not turned into its opposite."""
    yield from pair_remarks([r for r in records if r.task in (YES, NO)])
    yield from linearity_remarks([r for r in records if r.task == LINEARITY])
    if any(r.task in (YES, NO) for r in records):
        yield "a rejected answer is not trusted; it is never turned into its opposite"
