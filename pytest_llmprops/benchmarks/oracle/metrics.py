"""The metrics of the oracle-checker, computed only from the values of verdicts (Zeng et al., section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, PHIS, YES
from pytest_llmprops.benchmarks.oracle.metric_names import (
    CATEGORIES,
    DIRECTIONS,
    NOT_JUDGED,
    OWN,
    PAIRS,
    RANDOM,
    REJECTIONS,
)
from pytest_llmprops.benchmarks.oracle.nulls import NAMES
from pytest_llmprops.benchmarks.oracle.pair_evidence import phi_of
from pytest_llmprops.benchmarks.oracle.sentence_metrics import linearity_remarks, sentence_metrics
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import Interval, clopper_pearson

OVERLAP = "word overlap"
#: minimum number of accepted answers of a null oracle, and of tests of a no, whose shares count
FEWEST_ACCEPTED = 10
#: maximum share of the more frequent answer, where no labels say whether answers are right
MOST_ALIKE = 0.95
#: maximum share of tests whose source word overlap may name
MOST_REVEALED = 0.6

# The metrics of pairs of sentences (Zeng et al., section 5.2). A pair is the unit of every rate.

Values = Mapping[str, float]


def _hits(values: Iterable[Values], name: str) -> list[bool]:
    return [v[name] > 0 for v in values if name in v]


def yes_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of answers of yes."""
    said = [v for v in values if v.get("said_yes") == 1]
    decided = [v for v in said if not v.get("trees_missing") and not v.get(f"undecided_{phi_of(v)}")]
    yield rate(place, "acceptance_rate", _hits(decided, "accepted"), "higher")
    measured = [v for v in decided if f"potential_{phi_of(v)}" in v]
    potential = [v for v in measured if v[f"potential_{phi_of(v)}"]]
    if measured:
        yield rate(place, "potential_rate", [bool(v[f"potential_{phi_of(v)}"]) for v in measured], "none")
    if potential:
        yield rate(place, "confirmed_rate", _hits(potential, "accepted"), "higher")
    for phi in PHIS:
        undecided = [v.get(f"undecided_{phi}", 0.0) == 1 for v in said]
        decided = [
            v for v, unread in zip(said, undecided, strict=True) if not (unread or v.get("trees_missing"))
        ]
        yield rate(place, "acceptance_rate", _hits(decided, f"phi_{phi}"), "higher", group=phi)
        yield rate(place, "unreadable_rate", undecided, "lower", group=phi)
    yield rate(place, "untested_rate", [v.get("trees_missing") == 1 for v in said], "none")
    yield from _agreement(place, said)


def no_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of answers of no, and table 5."""
    said = [v for v in values if v.get("said_yes") == 0]
    judged = [v for v in said if v.get(f"trust_{phi_of(v)}") not in NOT_JUDGED]
    yield rate(place, "acceptance_rate", _hits(judged, "accepted"), "higher")
    yield rate(place, "acceptance_rate_paper", _hits(judged, "accepted_paper"), "higher")
    other_only = [v["accepted_paper"] == 1 and v.get(f"other_only_{phi_of(v)}", 0) > 0 for v in judged]
    yield rate(place, "other_only_rate", other_only, "none")
    for phi in PHIS:
        tested = [v for v in said if v.get(f"trust_{phi}") not in (None, *NOT_JUDGED)]
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


def all_pairs_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of tables 2 and 3, by label and by answer."""
    said = [v for v in values if v.get("said_yes", -1) >= 0]
    yield from _agreement(place, said)
    answers = [v["said_yes"] < 0 for v in values if "said_yes" in v]
    yield rate(place, "unreadable_rate", answers, "lower")
    yield rate(place, "parse_failure_rate", _hits(values, "trees_missing"), "none")
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
        return not values.get("trees_missing") and not values.get(f"undecided_{phi_of(values)}")
    return values.get("said_yes") == 0 and values.get(f"trust_{phi_of(values)}") not in NOT_JUDGED


# What is accepted of a model's answers on pairs, compared with oracles that know nothing.
#
# Acceptance alone says little: an oracle that says "no" to every pair and recognises its own paraphrases is accepted
# each time. Where pairs have labels, the share of accepted answers that are right decides, and how many are accepted.


@dataclass(frozen=True, slots=True)
class Played:
    """What is accepted of one oracle's answers, on pairs from one source.

    The numbers of null oracles may be expected values.

    :param answered: pairs with an answer.
    :param right: accepted answers that agree with the label; None without labels.
    """

    name: str
    answered: int
    accepted: float
    right: float | None

    @property
    def coverage(self) -> float:
        """The share of answers that are accepted."""
        return self.accepted / self.answered

    @property
    def precision(self) -> float | None:
        """The share of accepted answers that are right; None if none is accepted, or without labels."""
        return None if self.right is None or not self.accepted else self.right / self.accepted


class Pairs:
    """A model's answers on pairs from one source, and those of oracles that know nothing.

    :param values: of the verdicts. If some pairs have labels, only these count.
    """

    def __init__(self, values: Sequence[Values]) -> None:
        answered = [v for v in values if v.get("said_yes", -1) >= 0]
        labelled = [v for v in answered if v["label"] >= 0]
        self.is_labelled = bool(labelled)
        self.values = labelled or answered

    @cached_property
    def model(self) -> Played:
        """The model's own answers."""
        accepted = [v for v in self.values if v["accepted"]]
        return self._played("", accepted, [v["said_yes"] for v in accepted])

    def _played(self, name: str, accepted: Sequence[Values], said: Sequence[float]) -> Played:
        right = sum(v["label"] == yes for v, yes in zip(accepted, said, strict=True))
        return Played(name, len(self.values), len(accepted), right if self.is_labelled else None)

    @cached_property
    def nulls(self) -> tuple[Played, ...]:
        """Oracles that know nothing; empty if the record has none. Word overlap has its best threshold."""
        if not any("null_yes" in v for v in self.values):
            return ()
        members: dict[str, list[Values]] = {
            name: [v for v in self.values if v.get(name)] for name in ("null_yes", "null_no", "null_coin")
        }
        said = {name: [float(name == "null_yes")] * len(found) for name, found in members.items()}
        said["null_coin"] = [v["said_coin"] for v in members["null_coin"]]
        played = [self._played(NAMES[name], found, said[name]) for name, found in members.items()]
        if all("overlap" in v for v in self.values):
            played += [self._best_overlap(), self._same_source()]
        return tuple(played)

    @property
    def judge(self) -> Played | None:
        """The perfect judge: labels for sentences and phrases; None if these lack labels."""
        known = [v for v in self.values if "null_judge" in v]
        # One that knows only the pairs without a proof would mislead.
        if len(known) < MOST_ALIKE * len(self.values) or not known:
            return None
        accepted = sum(v["null_judge"] for v in known)
        return Played(NAMES["null_judge"], len(known), accepted, accepted)

    @cached_property
    def drawn(self) -> tuple[tuple[float, float], ...]:
        """The overlaps of the tests' paraphrases with their source and with the other sentence."""
        keys = [(v, f"overlap_own_{phi_of(v)}", f"overlap_other_{phi_of(v)}") for v in self.values]
        return tuple((v[own], v[other]) for v, own, other in keys if own in v)

    def revealed(self, threshold: float) -> float:
        """Return the share of answers of no whose tests a judge by overlap passes; 1 if there were no tests."""
        if not self.drawn:
            return 1.0
        return sum(other < threshold <= own for own, other in self.drawn) / len(self.drawn)

    @cached_property
    def source_revealed(self) -> float:
        """The same at the best threshold: how often word overlap alone names the source of a paraphrase."""
        return max(self.revealed(own) for own in {own for own, _ in self.drawn} or {1.0})

    def overlap_judge(self, threshold: float) -> Played:
        """Return a judge that says yes where the words of two texts overlap by ``threshold`` or more.

        Its paraphrases are those that the model was tested with. A pair without such paraphrases counts as accepted
        with the probability of the others.
        """
        accepted, right = 0.0, 0.0
        passes = self.revealed(threshold)
        for v in self.values:
            is_yes = v["overlap"] >= threshold
            weight = float(v.get("overlap_proof", 0.0) >= threshold) if is_yes else passes
            accepted += weight
            right += weight * (v["label"] == is_yes)
        name = f"{OVERLAP} ≥ {threshold:.2f}"
        return Played(name, len(self.values), accepted, right if self.is_labelled else None)

    @cached_property
    def overlap_judges(self) -> tuple[Played, ...]:
        """The judges by overlap at every threshold at which an answer of theirs changes."""
        limits = {v["overlap"] for v in self.values} | {own for own, _ in self.drawn}
        return tuple(self.overlap_judge(limit) for limit in sorted(limits) if limit)

    def _best_overlap(self) -> Played:
        fair = [played for played in self.overlap_judges if self._is_fair(played)]
        best = max(fair, key=self.merit, default=None)
        return best or Played(OVERLAP, len(self.values), 0.0, 0.0 if self.is_labelled else None)

    def _same_source(self) -> Played:
        """Return an oracle that says no to every pair, and knows its own paraphrases by the overlap of words."""
        accepted = self.source_revealed * len(self.values)
        no = self.source_revealed * sum(v["label"] == 0 for v in self.values)
        return Played("same source", len(self.values), accepted, no if self.is_labelled else None)

    def _is_fair(self, played: Played) -> bool:
        """Return True if enough is accepted of a null oracle to compare its precision."""
        return played.accepted >= FEWEST_ACCEPTED and played.coverage >= self.model.coverage / 2

    def merit(self, played: Played) -> float:
        """Return what decides: the precision of accepted answers, or their share where no pair has a label."""
        return (played.precision or 0.0) if self.is_labelled else played.coverage

    @property
    def best_null(self) -> Played | None:
        """The null oracle with the highest merit; None if the record has no null oracles."""
        fair = [played for played in self.nulls if self._is_fair(played)] or list(self.nulls)
        return max(fair, key=self.merit, default=None)

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the model's merit; None if nothing is accepted or answered."""
        model = self.model
        hits, of = (model.right, model.accepted) if self.is_labelled else (model.accepted, model.answered)
        return clopper_pearson(hits or 0.0, of) if of else None

    @property
    def same_answer(self) -> float:
        """The share of the more frequent answer."""
        yes = sum(v["said_yes"] == 1 for v in self.values) / len(self.values)
        return max(yes, 1 - yes)

    @property
    def is_above_nulls(self) -> bool:
        """True if the model's merit is clearly above that of the best null oracle.

        Without labels, a model that nearly always gives the same answer is never above: one that knows nothing could
        be accepted as often.
        """
        interval, null = self.interval, self.best_null
        if interval is None or null is None or interval.low <= self.merit(null):
            return False
        return self.is_labelled or self.same_answer <= MOST_ALIKE


def _accepted_pairs(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield precision and coverage of the model and of the null oracles, and what is accepted of right answers."""
    # Records without null oracles have nothing to compare with.
    decided = [v for v in values if is_decided(v) and NAMES.keys() & v.keys()]
    if decided:
        yield rate(place, "acceptance_rate", _hits(decided, "accepted"), "higher")
    pairs = Pairs(values)
    if pairs.values:
        yield rate(place, "coverage", _hits(pairs.values, "accepted"), "higher")
    if pairs.is_labelled:
        right = [v["said_yes"] == v["label"] for v in pairs.values]
        accepted = [is_right for v, is_right in zip(pairs.values, right, strict=True) if v["accepted"]]
        yield rate(place, "accepted_precision", accepted, "higher")
        for name, wanted in (("right_acceptance_rate", True), ("wrong_acceptance_rate", False)):
            members = [v for v, is_right in zip(pairs.values, right, strict=True) if is_right is wanted]
            yield rate(place, name, _hits(members, "accepted"), DIRECTIONS[name])
    if pairs.drawn:
        yield Metric(
            *place, "source_revealed_rate", pairs.source_revealed, len(pairs.drawn), direction="lower"
        )
    for played in (*pairs.nulls, *filter(None, [pairs.judge])):
        group = played.name.partition(" ≥")[0]
        yield Metric(*place, "null_coverage", played.coverage, played.answered, group, direction="none")
        if played.precision is not None:
            n = round(played.accepted)
            yield Metric(*place, "null_precision", played.precision, n, group, direction="none")
    for label, group in ((1, "label yes"), (0, "label no")):
        # A constant yes is accepted exactly for the pairs with a potential alignment.
        hits = _hits([v for v in values if v.get("label") == label], "null_yes")
        if hits:
            yield rate(place, "potential_rate", hits, "none", group=group)
    hits = _hits(values, "self_aligned")
    if hits:
        yield rate(place, "self_alignment_rate", hits, "none")


def pair_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield what is accepted of the answers on pairs, compared with null oracles, and the bound of a no."""
    sources: dict[str, list[Values]] = {}
    for record in records:
        sources.setdefault(record.source, []).append(record.values)
    for source, values in sources.items():
        pairs = Pairs(values)
        if pairs.values and pairs.nulls:
            yield from _conclusion(pairs, f"{PAIRS}: {source}" if len(sources) > 1 else PAIRS)
    no = [r.values for r in records if r.task == NO]
    yield from _no_bound(no, Pairs(no))


def _conclusion(pairs: Pairs, where: str) -> Iterator[str]:
    model, best, interval = pairs.model, pairs.best_null, pairs.interval
    accepted = f"{model.accepted:.0f} of {model.answered} answers are accepted ({model.coverage:.1%})"
    limits = "" if interval is None else f" ({interval.low:.1%} to {interval.high:.1%})"
    if not pairs.is_labelled:
        accepted += limits
    elif model.precision is not None:
        accepted += f"; of these, {model.precision:.1%} are right{limits}"
    assert best is not None
    null = f"an oracle that knows nothing ({best.name})"
    got = f"{pairs.merit(best):.1%}"
    if pairs.is_above_nulls:
        yield f"{where}: {accepted}; clearly more than of {null}: {got}"
    elif not pairs.is_labelled and pairs.same_answer > MOST_ALIKE:
        yield f"warning: {where}: no conclusion: {pairs.same_answer:.1%} of the answers are the same; {accepted}"
    else:
        yield f"warning: {where}: no conclusion: {accepted}; not clearly more than of {null}: {got}"
    others = [f"{p.name} {_shares(p)}" for p in (*pairs.nulls, *filter(None, [pairs.judge]))]
    what = "accepted, and right of these" if pairs.is_labelled else "accepted"
    yield f"{where}: {what}, of other oracles: {', '.join(others)}"


def _shares(played: Played) -> str:
    precision = "" if played.precision is None else f" and {played.precision:.1%}"
    return f"{played.coverage:.1%}{precision}"


def _no_bound(no: Sequence[Values], pairs: Pairs) -> Iterator[str]:
    """Yield the probability with which a model passes the tests of a no without knowing the source, if it holds."""
    tested = [v for v in no if v.get(f"tests_{phi_of(v)}")]
    if not tested:
        return
    most = int(max(v[f"tests_{phi_of(v)}"] for v in tested))
    passed = "1 test" if most == 1 else f"{most} tests"
    many, limit = len(pairs.drawn), MOST_REVEALED**most
    if many >= FEWEST_ACCEPTED and pairs.source_revealed > limit:
        yield (
            f"accepted no: no bound: word overlap alone passes the tests of {pairs.source_revealed:.1%} of {many}"
            f" answers (at most {limit:.1%} is allowed), so paraphrases reveal their source"
        )
        return
    one_sided = [v for v in tested if not v[f"fair_coin_{phi_of(v)}"]]
    unfair = sum(bool(v["accepted"]) for v in one_sided)
    exception = (
        f"; no bound for {unfair}, where only one sentence had paraphrases to draw from (so in"
        f" {len(one_sided)} of {len(tested)} tested answers of no)"
        if unfair
        else ""
    )
    yield (
        f"accepted no: a model whose answers do not depend on the coin passes {passed} with probability at most"
        f" {0.5**most:.3g}{exception}"
        + ("" if many >= FEWEST_ACCEPTED else "; too few tests to say whether word overlap names the source")
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
    yield rate(place, "unreadable_rate", undecided, "lower")
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
