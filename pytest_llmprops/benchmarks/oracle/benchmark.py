"""The oracle benchmark: does a checker accept the model's own answers? (Zeng, Wang & Ibbetson)

What asks, checks and counts is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.items import (
    CONSISTENCY,
    DIRECTIONS,
    EMBED,
    LINEARITY,
    NO,
    OWN,
    PAIRS,
    PARSE,
    RANDOM,
    SEARCHES,
    YES,
    items,
    sanity_items,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle, verdict_of
from pytest_llmprops.benchmarks.oracle.settings import QUICK, RULES, OracleSettings
from pytest_llmprops.benchmarks.oracle.synonyms import (
    POOL_FILE,
    RULES_FILE,
    Context,
    pool_of,
    read_pool,
    read_rules,
)
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded, Measured, Searched
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.verdicts import READ_BY, Verdict, VerdictRecord

_ASSUMED = (
    "temperature 1, the default of the paper's API; length left to the server",
    "x and y are drawn from all vectors: tests that no extractor fails (x = 0, y = 0, x = y) count too",
    "every sentence of a test is asked about afresh, equal ones too; majority asks about equal vectors once",
    "entities are compared normalised: case, quotes, articles, possessives and punctuation at the ends do not count",
    "replies are read leniently: JSON, plain lists, a plain yes or no; unreadable ones are asked for again once",
    "rules, classes and pool of the synonym generator, and the guards on its replacements, are this project's",
    "node vectors are means of token vectors; unary chains of a tree are one node; punctuation counts as covered",
    "a phrase may be mapped onto the whole other sentence, as in Algorithm 1",
    "a 'no' is rejected on triangular evidence only (section 5.2.3); figure 4 has only no-then-yes pass",
    "an indifferentiable paraphrase is drawn whenever one exists; if only one sentence has one, there is no fair coin",
)


class OracleChecker(Benchmark):
    """A checker without right answers accepts the model's answers or rejects them as not trusted."""

    name = "oracle"
    title = "Oracle-checker"
    noun = "oracle sentences"
    verb = "has an accepted answer to"
    about = "Do the model's own answers survive a checker that puts further questions to it?"
    task_about = {
        LINEARITY: "Some entities are replaced. Does the model still extract each of them?",
        YES: "The model calls two sentences equivalent: can that be proved, phrase by phrase, by its own answers?",
        NO: "The model calls two sentences not equivalent: does it tell apart which one a paraphrase comes from?",
        CONSISTENCY: "Sanity check: does the model answer alike when it is asked again?",
        OWN: "Sanity check: does the model hold its own paraphrase equivalent, each time?",
        RANDOM: "Sanity check: two unrelated sentences; the answer no must be accepted.",
    }
    controls = frozenset({CONSISTENCY, OWN, RANDOM})
    # With quick, the tests of a sentence with four entities take about 35 calls, a pair about six.
    sizes = {
        "small": {LINEARITY: 6, YES: 8, NO: 8, CONSISTENCY: 6, OWN: 6, RANDOM: 6},
        "standard": {LINEARITY: 60, YES: 32, NO: 32, CONSISTENCY: 21, OWN: 21, RANDOM: 21},
    }
    metric_directions = DIRECTIONS
    # A verdict says whether an answer was accepted, and each sample may have another answer.
    one_decision = False
    presentation = frozenset({"search"})
    properties = SEARCHES
    tasks_by_answer = frozenset({YES, NO})
    # What the checker accepts of answers on pairs may be wrong: an oracle that knows nothing may be accepted, too.
    unranked = {YES: PAIRS, NO: PAIRS}
    protocols = {
        "paper": NamedSettings(OracleSettings(), assumed=_ASSUMED),
        "quick": NamedSettings(
            QUICK,
            gives_up=(
                "samples (3 of 11) and votes: at most 45 calls for the tests of a sentence, instead of 165; sentences"
                " with one entity; proofs of pairs that need none;"
                " oracle-confirmed alignment of paraphrases"
            ),
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        rules = read_rules(files.builtin.json(RULES_FILE))
        written = read_pool((files if files.exists(POOL_FILE) else files.builtin).json(POOL_FILE))
        measured = tuple(items(files))
        entities = (entity for item in measured if item.task == LINEARITY for entity in item["entities"])
        pool = pool_of(entities, written, rules)
        return Loaded((*measured, *sanity_items(measured)), Context(rules, pool))

    def roles_of(self, task: str) -> frozenset[str]:
        return frozenset() if task in (LINEARITY, CONSISTENCY) else frozenset({PARSE, EMBED})

    async def evaluate(
        self, item: Item, context: Context, ask: Ask, protocol: Protocol[OracleSettings]
    ) -> Verdict:
        """Return the verdict on one item: whether its checker accepts the model's answer."""
        from pytest_llmprops.benchmarks.oracle.covering import Aligner
        from pytest_llmprops.benchmarks.oracle.equivalence import (
            EquivalenceChecker,
            Pair,
            own_paraphrase,
            self_consistency,
        )
        from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
        from pytest_llmprops.benchmarks.oracle.metrics import PREFIX, shallow

        settings = protocol.settings
        oracle = _oracle(ask, settings)
        rng = protocol.rng(item.id)
        if item.task == LINEARITY:
            # Only a user's own sentences have no labels; the others may be labelled with no entity.
            labels = None if item["domain"] == "own" else tuple(name for name, _ in item["entities"])
            extractor = LinearityChecker(settings, context.rules, context.pool)
            acceptance = await extractor.check(Sentence(item["text"], labels), oracle, rng)
            return _verdict(acceptance, {"rule": float(RULES.index(settings.rule))})
        align = Aligner(ask, settings.alignment)
        checker = EquivalenceChecker(settings, align, is_random=item.task == RANDOM)
        if item.task == OWN:
            return _verdict(await own_paraphrase(item["first"], oracle, checker, rng))
        pair = Pair(item["first"], item["second"], item["label"])
        if item.task == CONSISTENCY:
            return _verdict(await self_consistency(pair, oracle, settings.askings))
        acceptance = await checker.check(pair, oracle, rng)
        if item.task == RANDOM:
            verdict = _verdict(acceptance)
            if acceptance.values["said_yes"] == 1:
                return replace(
                    verdict, status="wrong", score=0.0, reason=f"unrelated sentences: {acceptance.why}"
                )
            return verdict
        values = {PREFIX + name: number for name, number in shallow(pair.first, pair.second).items()}
        verdict = _verdict(acceptance, values)
        said = acceptance.values["said_yes"]
        return verdict if said < 0 else replace(verdict, task=YES if said else NO)

    def searches(self, item: Item, settings: OracleSettings, name: str) -> bool:
        from pytest_llmprops.benchmarks.oracle.search import pair_search

        if settings.search == "none" or item.task not in (LINEARITY, YES, NO):
            return False
        return name == (LINEARITY if item.task == LINEARITY else pair_search(item.id))

    async def search(
        self,
        item: Item,
        context: Context,
        ask: Ask,
        protocol: Protocol[OracleSettings],
        measured: Measured,
        name: str,
    ) -> Searched | str:
        """Return the search for a counterexample, or the reason why there is none."""
        from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker
        from pytest_llmprops.benchmarks.oracle.search import linearity_search, pair_search_of

        settings, verdict = protocol.settings, await measured()
        if verdict.status != "correct":
            return f"its answer is {verdict.given}"
        oracle = _oracle(ask, settings)
        if name == LINEARITY:
            if not verdict.values.get("tests"):
                return verdict.reason
            checker = LinearityChecker(settings, context.rules, context.pool)
            return await linearity_search(checker, item["text"], oracle, protocol.rng(item.id))
        said = bool(verdict.values["said_yes"])
        return await pair_search_of(name, item["first"], item["second"], said, oracle, settings)

    def search_calls(self, settings: OracleSettings, name: str) -> int:
        from pytest_llmprops.benchmarks.oracle.search import most_calls

        return most_calls(settings, name)

    def caption(self, item: Item) -> str:
        return str(item["text"] if item.task == LINEARITY else item["first"])

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Return the metrics of figure 6 and tables 1 to 5."""
        from pytest_llmprops.benchmarks.oracle.metrics import metric_rows

        return metric_rows(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield the bound of an acceptance, and a note that a rejected answer is not turned into its opposite."""
        from pytest_llmprops.benchmarks.oracle.metrics import remarks

        return remarks(records)


def _oracle(ask: Ask, settings: OracleSettings) -> Oracle:
    return Oracle(ask, temperature=settings.temperature, max_tokens=settings.max_tokens, json=settings.json)


def _verdict(acceptance: Acceptance, more_values: dict[str, float] | None = None) -> Verdict:
    """Return a checker's decision as a verdict, with ``more_values``."""
    verdict = verdict_of(acceptance)
    evidence = dict(verdict.evidence)
    # How an answer was read is not the cause if something after it could not be read or tested.
    is_read = acceptance.outcome in ("untested", "unmeasurable") or evidence.get("answer") in ("yes", "no")
    if verdict.status == "unparsed" and is_read:
        evidence.pop(READ_BY, None)
    return replace(verdict, values={**acceptance.values, **(more_values or {})}, evidence=evidence)
