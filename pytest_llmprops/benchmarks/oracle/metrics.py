"""The metrics of the oracle-checker, computed only from the values of verdicts (Zeng et al., section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.edits import KINDS
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, PHIS, RULES, YES
from pytest_llmprops.benchmarks.oracle.metric_names import (
    CATEGORIES,
    DIRECTIONS,
    NOT_JUDGED,
    OWN,
    PAIRS,
    RANDOM,
    REJECTIONS,
)
from pytest_llmprops.benchmarks.oracle.nulls import BLIND, NAMES
from pytest_llmprops.benchmarks.oracle.pair_evidence import phi_of
from pytest_llmprops.benchmarks.oracle.sentence_metrics import (
    document_metrics,
    document_remarks,
    null_remarks,
    sentence_metrics,
)
from pytest_llmprops.benchmarks.oracle.settings import LinearitySettings, bound_of
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.records import VerdictRecord

#: minimum number of pairs for a warning
FEWEST = 20

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
    yield from _floor_and_ceiling(place, values)
    yield from _known_answers(place, values)
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


def _known_answers(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield how often the model calls a sentence equivalent to its minimal edit, and not to its neutral edit."""
    minimal = [v for v in values if v.get("said_yes_minimal", -1) >= 0]
    if minimal:
        yield rate(place, "edit_acceptance_rate", _hits(minimal, "said_yes_minimal"), "lower")
    for number, kind in enumerate(KINDS):
        members = [v for v in minimal if v["minimal_edit"] == number]
        if members:
            yield rate(place, "edit_acceptance_rate", _hits(members, "said_yes_minimal"), "lower", group=kind)
    neutral = [v["said_yes_neutral"] == 0 for v in values if v.get("said_yes_neutral", -1) >= 0]
    if neutral:
        yield rate(place, "self_denial_rate", neutral, "lower")


def is_decided(values: Values) -> bool:
    """Return True if the answer on a pair is accepted or rejected."""
    if values.get("said_yes") == 1:
        return not values.get("trees_missing") and not values.get(f"undecided_{phi_of(values)}")
    return values.get("said_yes") == 0 and values.get(f"trust_{phi_of(values)}") not in NOT_JUDGED


def _floor_and_ceiling(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the acceptance of the model, and that of the null oracles and the perfect judge on the same pairs."""
    # Records without null oracles have no floor to compare with.
    decided = [v for v in values if is_decided(v) and NAMES.keys() & v.keys()]
    if decided:
        yield rate(place, "acceptance_rate", _hits(decided, "accepted"), "higher")
    for name, group in NAMES.items():
        hits = _hits(decided, name)
        if hits:
            yield rate(place, "null_acceptance_rate", hits, "none", group=group)
    for label, group in ((1, "label yes"), (0, "label no")):
        # A constant yes is accepted exactly for the pairs with a potential alignment.
        hits = _hits([v for v in values if v.get("label") == label], "null_yes")
        if hits:
            yield rate(place, "potential_rate", hits, "none", group=group)
    hits = _hits(values, "self_aligned")
    if hits:
        yield rate(place, "self_alignment_rate", hits, "none")


def pair_remarks(values: Sequence[Values], no: Sequence[Values]) -> Iterator[str]:
    """Yield what an acceptance of pairs means: its floor and ceiling, and the bound of a no.

    :param no: the values of the task ``no``.
    """
    decided = [v for v in values if is_decided(v)]
    nulls = [f"{group} {_percent(hits)}" for name, group in NAMES.items() if (hits := _hits(decided, name))]
    if nulls:
        yield (
            f"pairs: {_percent(_hits(decided, 'accepted'))} of the answers are accepted; of other oracles on the same"
            f" {len(decided)} pairs: {', '.join(nulls)}"
        )
    blind = [(_share(hits), NAMES[name]) for name in BLIND if (hits := _hits(decided, name))]
    if blind and len(decided) >= FEWEST:
        accepted, (best, name) = _share(_hits(decided, "accepted")), max(blind)
        if accepted <= best:
            yield (
                f"warning: {accepted:.1%} of {len(decided)} answers on pairs are accepted; an oracle that ignores the"
                f" question ({name}) gets {best:.1%}"
            )
    tested = [v for v in no if v.get("tests_or")]
    if tested:
        most = int(max(v["tests_or"] for v in tested))
        one_sided = [v for v in tested if not v[f"fair_coin_{phi_of(v)}"]]
        unfair = sum(bool(v["accepted"]) for v in one_sided)
        exception = (
            f"; no bound for {unfair}, where only one sentence had paraphrases to draw from (so in"
            f" {len(one_sided)} of {len(tested)} tested answers of no)"
            if one_sided
            else ""
        )
        passed = "1 test" if most == 1 else f"{most} tests"
        yield (
            f"accepted no: a model whose answers do not depend on the coin passes {passed} with probability at most"
            f" {0.5**most:.3g}{exception}"
        )


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits)


def _percent(hits: Sequence[bool]) -> str:
    return f"{_share(hits):.1%}"


def sanity_metrics(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield the metrics of a sanity check, and table 4."""
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


# The lines of the summary about sentences: what an acceptance means, and what is accepted of null extractors.


def linearity_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield the bounds of sentences and documents, the null extractors, and how many tests could not fail."""
    tested = [r.values for r in records if r.values.get("tests")]
    for text in dict.fromkeys(bound_of(_settings_of(v)).text for v in tested):
        yield f"accepted sentences: {text}"
    yield from document_remarks(records)
    yield from null_remarks(tested)
    drawn = sum(v["tests"] for v in tested)
    vacuous = drawn - sum(v.get("informative_tests", v["tests"]) for v in tested)
    if vacuous:
        sentences = sum(v.get("no_informative_test", 0.0) for v in tested)
        yield (
            f"{vacuous:.0f} of {drawn:.0f} tests of linearity pass for every extractor (x = 0, y = 0 or x = y);"
            f" {sentences:.0f} of {len(tested)} sentences have no other test"
        )


def _settings_of(values: Mapping[str, float]) -> LinearitySettings:
    """Return the settings that the bound of a tested sentence depends on, from its values."""
    samples, rule = int(values["samples"]), RULES[int(values["rule"])]
    if "epsilon" in values:
        epsilon, delta = values["epsilon"], values["delta"]
        return LinearitySettings(samples=samples, rule=rule, draw="informative", epsilon=epsilon, delta=delta)
    return LinearitySettings(samples=samples, tests=int(values["tests"]), rule=rule)


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of every task, language and source, and those of pairs over both answers."""
    pairs: dict[tuple[str, str], list[VerdictRecord]] = {}
    for place, members in by_place(records).items():
        task, language, source = place
        if task == LINEARITY:
            yield from sentence_metrics(place, members)
            yield from document_metrics(place, members)
        elif task in (YES, NO):
            pairs.setdefault((language, source), []).extend(members)
            yield from (yes_metrics if task == YES else no_metrics)(place, [r.values for r in members])
        else:
            yield from sanity_metrics(place, [r.values for r in members])
    for (language, source), members in pairs.items():
        yield from all_pairs_metrics((PAIRS, language, source), [r.values for r in members])


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield the bound of an acceptance, and a note that a rejected answer is not turned into its opposite."""
    yield from linearity_remarks([r for r in records if r.task == LINEARITY])
    pairs = {task: [r.values for r in records if r.task == task] for task in (YES, NO)}
    yield from pair_remarks([*pairs[YES], *pairs[NO]], pairs[NO])
    if any(r.task in (YES, NO) for r in records):
        yield "a rejected answer is not trusted; it is never turned into its opposite"
