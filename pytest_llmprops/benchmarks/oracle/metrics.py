"""The metrics of the oracle-checker, computed only from the values of verdicts (Zeng et al., section 5).

The unit of a rate is a sentence, an entity, a changed sentence, a combination of replies, or a pair. Units of a
sentence, and sentences of a document, are not independent: intervals are over clusters.

Acceptance alone says little: an oracle that says "no" to every pair and recognises its own paraphrases is accepted each
time. What counts is how many accepted answers are right, and that more of them are than of the best null oracle with
the same coverage.

A null oracle answers by a rule: always yes, always no, a coin, or one shallow feature of the two sentences with the
threshold and direction that suit the labels best. It confirms every phrase, so its yes is accepted where the prover
aligns the sentences, and it knows its own paraphrases, so its no is always accepted. No call is needed for that: a
verdict has ``potential_or``, and ``shallow_`` with each feature.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import product

from pytest_llmprops.benchmarks.oracle.items import DIRECTIONS, LINEARITY, NO, OWN, PAIRS, RANDOM, YES
from pytest_llmprops.benchmarks.oracle.linearity import bound_of
from pytest_llmprops.benchmarks.oracle.settings import PHIS, RULES, Phi
from pytest_llmprops.benchmarks.oracle.trust import CATEGORIES, OUTCOME_CODES, overlap, source_revealed
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import clopper_pearson, mean_interval

Values = Mapping[str, float]
#: outcomes of the test of a "no" (``trust.OUTCOME_CODES``) that the paper's rule does not cover: unreadable, untested
NOT_JUDGED = (4, 5)
_Number = Callable[[Values], float]
#: the two sides of each rank correlation (table 1)
_ROWS, _COLUMNS = ("a_test", "a_rate", "entities"), ("con_o", "con_rs", "entities")


def by_domain(records: Iterable[VerdictRecord]) -> dict[str, list[VerdictRecord]]:
    """Return the records by the second part of their ids (``general``, ``technical`` …); empty if all have one."""
    groups = grouped(records, lambda record: record.id.split("/")[1])
    return groups if len(groups) > 1 else {}


def sentence_metrics(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of the sentences of one place, in total and by domain if there are several."""
    read = [r for r in members if "entities" in r.values]
    for group, records in {"": read, **by_domain(read)}.items():
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
        hits = _value("accepted", whole)
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


def _value(*names: str) -> _Number:
    """Return a function that multiplies these values; 1 without any."""
    return lambda values: math.prod(values[name] for name in names)


_ONE = _value()


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
    whole: _Number = _ONE,
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
    for text in dict.fromkeys(_bound(v) for v in tested):
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


def _bound(values: Values) -> str:
    """Return the bound of an acceptance of a tested sentence."""
    return bound_of(RULES[int(values["rule"])], int(values["samples"]), int(values["tests"])).text


#: minimum number of tests of a no that say whether word overlap names the source
FEWEST_TESTS = 10
#: maximum share of tests whose source word overlap may name
MOST_REVEALED = 0.6

# The metrics of pairs of sentences (Zeng et al., section 5.2). A pair is the unit of every rate.


def _hits(values: Iterable[Values], name: str) -> list[bool]:
    return [v[name] > 0 for v in values if name in v]


def _judged(said: Iterable[Values], phi: Phi) -> list[Values]:
    """Return the answers of no whose test by this kind of alignment could be read."""
    return [v for v in said if v.get(f"trust_{phi}") not in (None, *NOT_JUDGED)]


def answer_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of answers of yes or of no, and table 5."""
    is_no = place[0] == NO
    said = [v for v in values if v.get("said_yes") == (not is_no)]
    decided = list(filter(is_decided, said))
    yield rate(place, "acceptance_rate", _hits(decided, "accepted"), "higher")
    if is_no:
        yield rate(place, "acceptance_rate_paper", _hits(decided, "accepted_paper"), "higher")
        for phi, (number, name) in product(PHIS, CATEGORIES.items()):
            members = [v for v in _judged(said, phi) if v.get(f"category_{phi}") == number]
            if members:
                hits = _hits(members, f"trust_paper_{phi}")
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
    for name, key, number in (
        ("label yes", "label", 1), ("label no", "label", 0),
        ("answer yes", "said_yes", 1), ("answer no", "said_yes", 0),
    ):  # fmt: skip
        members = [v for v in said if v[key] == number]
        if key == "label" and members:
            yield rate(place, "yes_rate", [v["said_yes"] == 1 for v in members], "none", group=name)
        for phi in PHIS:
            proved = _hits(members, f"phi_{phi}")
            # With ``phrases=needed``, only pairs with the answer yes have a proof attempt.
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
            yield rate(place, "potential_rate", _hits(aligned, "potential_or"), "none", group=group)


def drawn_overlaps(values: Iterable[Values]) -> list[tuple[float, float]]:
    """Return the overlaps of the paraphrases of tests with their source and with the other sentence."""
    return [(v["overlap_own_or"], v["overlap_other_or"]) for v in values if "overlap_own_or" in v]


def pair_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield what is accepted of the answers on pairs, compared with null oracles, and the bound of a no."""
    sources = grouped(records, lambda record: record.source)
    for source, members in sources.items():
        pairs = Pairs([record.values for record in members])
        if pairs.values:
            yield from conclusion(pairs, f"{PAIRS}: {source}" if len(sources) > 1 else PAIRS)
    yield from _no_bound([r.values for r in records if r.task == NO])


def _no_bound(no: Sequence[Values]) -> Iterator[str]:
    """Yield the probability with which a model passes the tests of a no without knowing the source, if it holds."""
    tested = _judged(no, "or")
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
            if tested := _judged(said, phi):
                hits = _hits(tested, f"trust_paper_{phi}")
                yield rate(place, "acceptance_rate_paper", hits, "higher", group=f"{phi}, answer no")


#: prefix of the features in a verdict's values -> their names in reports
PREFIX = "shallow_"
FEATURES = {
    "first_word": "the first word", "last_word": "the last word", "words": "length",
    "longer": "difference in length", "second_longer": "which one is longer", "overlap": "word overlap",
    "order": "word order", "numbers": "numbers", "all_numbers": "how many numbers", "marks": "punctuation",
    "all_marks": "how much punctuation",
}  # fmt: skip
#: the null oracles in their order
NULLS = ("always yes", "always no", "a coin", "shallow feature")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_MARK = re.compile(r"[^\w\s]")


def shallow(first: str, second: str) -> dict[str, float]:
    """Return what can be seen of two sentences without reading them, by the keys of ``FEATURES``."""
    one, two = unicode_words(first), unicode_words(second)
    values = {
        "first_word": one[:1] == two[:1],
        "last_word": one[-1:] == two[-1:],
        "words": len(one) + len(two),
        "longer": abs(len(one) - len(two)),
        "second_longer": len(two) - len(one),
        "overlap": overlap(first, second),
        "order": SequenceMatcher(None, one, two, autojunk=False).ratio(),
    }
    for name, pattern in (("numbers", _NUMBER), ("marks", _MARK)):
        counts = Counter(pattern.findall(first)), Counter(pattern.findall(second))
        values[name] = ((counts[0] - counts[1]) + (counts[1] - counts[0])).total()
        values[f"all_{name}"] = (counts[0] + counts[1]).total()
    return {name: float(values[name]) for name in FEATURES}


@dataclass(frozen=True, slots=True)
class Played:
    """What is accepted of a null oracle's answers about labelled pairs.

    :param coverage: share of the answers that are accepted.
    :param right: share of the answers that are accepted and agree with the label.
    """

    name: str
    coverage: float
    right: float

    @property
    def precision(self) -> float | None:
        """The share of accepted answers that are right; None if none is accepted."""
        return self.right / self.coverage if self.coverage else None


class Pairs:
    """A model's answers on pairs from one source, next to those of null oracles.

    :param values: of the verdicts; those without a readable answer or a label do not count.
    :ivar right: for each answer, whether it agrees with the label.
    :ivar accepted: for each accepted answer, whether it is right; ``rejected`` likewise.
    """

    def __init__(self, values: Sequence[Values]) -> None:
        self.values = [v for v in values if v.get("said_yes", -1) >= 0 and v["label"] >= 0]
        self.right = [v["said_yes"] == v["label"] for v in self.values]
        both = list(zip(self.right, self.values, strict=True))
        self.accepted = [right for right, v in both if v["accepted"]]
        self.rejected = [right for right, v in both if not v["accepted"]]

    @property
    def coverage(self) -> float:
        """The share of the model's answers that are accepted."""
        return len(self.accepted) / len(self.values)

    @property
    def gain(self) -> tuple[float, float, float]:
        """How much more often accepted answers are right than all answers, with its 95% interval.

        That is the difference between accepted and rejected answers, times the share of rejected ones. The intervals of
        both shares are combined as by Zou and Donner (2008).
        """
        if not self.accepted or not self.rejected:
            return 0.0, 0.0, 0.0
        one, two = (sum(right) / len(right) for right in (self.accepted, self.rejected))
        first, second = (clopper_pearson(sum(right), len(right)) for right in (self.accepted, self.rejected))
        below = math.hypot(one - first.low, second.high - two)
        above = math.hypot(first.high - one, two - second.low)
        rest = 1 - self.coverage
        return rest * (one - two), rest * (one - two - below), rest * (one - two + above)

    def play(self, name: str, says_yes: Sequence[bool]) -> Played:
        """Return a null oracle with these answers."""
        answers = zip(self.values, says_yes, strict=True)
        accepted = [v["label"] == yes for v, yes in answers if not yes or v.get("potential_or")]
        return Played(name, len(accepted) / len(self.values), sum(accepted) / len(self.values))

    @cached_property
    def nulls(self) -> tuple[Played, ...]:
        """The oracles that know nothing, in the order of ``NULLS``; empty without a pair."""
        if not self.values:
            return ()
        count = len(self.values)
        yes, no = self.play("always yes", [True] * count), self.play("always no", [False] * count)
        coin = Played("a coin", (yes.coverage + no.coverage) / 2, (yes.right + no.right) / 2)
        return tuple(filter(None, [yes, no, coin, max(self._by_feature(), key=self.bar, default=None)]))

    def _by_feature(self) -> Iterator[Played]:
        for feature, name in FEATURES.items():
            key = PREFIX + feature
            if all(key in v for v in self.values):
                for threshold in {v[key] for v in self.values}:
                    yield self.play(name, [v[key] >= threshold for v in self.values])
                    yield self.play(name, [v[key] < threshold for v in self.values])

    def bar(self, null: Played) -> float:
        """Return the precision of a null oracle at the model's coverage.

        With a higher coverage, it may be silent on any of its answers, and keeps its precision. With a lower one, it
        says no to as many more pairs as it needs.
        """
        coverage = self.coverage
        if null.coverage >= coverage:
            return null.precision or 0.0
        share = (coverage - null.coverage) / (1 - null.coverage)
        no = sum(v["label"] == 0 for v in self.values) / len(self.values)
        return (share * no + (1 - share) * null.right) / coverage


#: minimum share of the answers of no whose paraphrases are copies, for the conclusion to blame them
MANY_COPIES = 0.1


def conclusion(pairs: Pairs, where: str) -> Iterator[str]:
    """Yield what the accepted answers are worth, and what is accepted of null oracles."""
    best = max(pairs.nulls, key=pairs.bar)
    text = f"{len(pairs.accepted)} of {len(pairs.values)} answers are accepted ({pairs.coverage:.1%})"
    is_above = False
    if pairs.accepted:
        right, count, every = sum(pairs.accepted), len(pairs.accepted), sum(pairs.right) / len(pairs.right)
        interval = clopper_pearson(right, count)
        is_above = interval.low > pairs.bar(best)
        gain, low, high = (f"{round(100 * points)}".replace("-", "−") for points in pairs.gain)
        text += (
            f"; accepted answers are right in {right / count:.1%} ({interval.low:.1%} to"
            f" {interval.high:.1%}; all: {every:.1%}): accepting adds {gain} points ({low} to {high})"
        )
    null = f"the {pairs.bar(best):.1%} of an oracle that knows nothing ({best.name})"
    if is_above:
        yield f"{where}: {text}; clearly more than {null}"
    else:
        yield f"warning: {where}: no conclusion: {text}; not clearly more than {null}"
    no = [v for v in pairs.values if v["said_yes"] == 0]
    untested = [v for v in no if v.get("trust_or") == OUTCOME_CODES["untested"]]
    copies = sum(v.get("left_out_1", 0) + v.get("left_out_2", 0) > 0 for v in untested)
    if copies > MANY_COPIES * len(no):
        yield (
            f"warning: {where}: {copies} of {len(no)} answers of no are not tested, because the model's paraphrases"
            " copy their sentence: the coverage is low because of the paraphrases, not of the answers"
        )
    shares = ", ".join(f"{p.name} {p.coverage:.1%} and {p.precision or 0:.1%}" for p in pairs.nulls)
    yield f"{where}: accepted, and right of these, of oracles that know nothing: {shares}"


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of every task, language and source, and those of pairs over both answers."""
    pairs: dict[tuple[str, str], list[VerdictRecord]] = {}
    for place, members in by_place(records).items():
        task, language, source = place
        if task == LINEARITY:
            yield from sentence_metrics(place, members)
        elif task in (YES, NO):
            pairs.setdefault((language, source), []).extend(members)
            yield from answer_metrics(place, [r.values for r in members])
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
