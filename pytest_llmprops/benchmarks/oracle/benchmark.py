"""The oracle benchmark: does a checker accept the model's own answers? (Zeng, Wang & Ibbetson)"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.oracle.algorithm1 import Whole
from pytest_llmprops.benchmarks.oracle.aligning import EMBED, PARSE, Aligner, Matching
from pytest_llmprops.benchmarks.oracle.checker_benchmark import verdict_of
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES, items
from pytest_llmprops.benchmarks.oracle.linear_tests import RULES, Rule
from pytest_llmprops.benchmarks.oracle.linearity import (
    LinearityChecker,
    LinearitySettings,
    Sentence,
)
from pytest_llmprops.benchmarks.oracle.linearity_plan import plan_remark
from pytest_llmprops.benchmarks.oracle.linearity_remarks import linearity_remarks
from pytest_llmprops.benchmarks.oracle.linearity_settings import Draw
from pytest_llmprops.benchmarks.oracle.metric_names import CONSISTENCY, DIRECTIONS, OWN, RANDOM
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.nulls import null_values
from pytest_llmprops.benchmarks.oracle.pair_metrics import pair_remarks
from pytest_llmprops.benchmarks.oracle.pair_properties import PAIR_PROPERTIES
from pytest_llmprops.benchmarks.oracle.pair_search import MOST_CLAIMS, REQUESTS
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker, ParaphraseSettings
from pytest_llmprops.benchmarks.oracle.paraphrase_record import Pair, Phi
from pytest_llmprops.benchmarks.oracle.reduction import Reducible
from pytest_llmprops.benchmarks.oracle.sanity import own_paraphrase, random_checker, self_consistency
from pytest_llmprops.benchmarks.oracle.sanity_items import sanity_items
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.search import linearity_search
from pytest_llmprops.benchmarks.oracle.synonym_rules import (
    POOL_FILE,
    RULES_FILE,
    Pool,
    SynonymRules,
    parse_pool,
    parse_rules,
)
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded, Measured, Searched
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.core.verdicts import Verdict

_ASSUMED = (
    "temperature 1, the default of the paper's API; length left to the server",
    "x and y are drawn from all vectors: tests that no extractor fails (x = 0, y = 0, x = y) count too",
    "every sentence of a test is asked about afresh, equal ones too; majority and single ask about equal vectors once",
    "entities are compared normalised: case, quotes, articles, possessives and punctuation at the ends do not count",
    "rules, classes and pool of the synonym generator, and the guards on its replacements, are this project's",
    "node vectors are means of token vectors; unary chains of a tree are one node; punctuation counts as covered",
    "a phrase may be mapped onto the whole other sentence, as in Algorithm 1",
    "a 'no' is accepted on no-then-yes; acceptance_rate_paper rejects on triangular evidence only (section 5.2.3)",
    "an indifferentiable paraphrase is drawn whenever one exists; if only one sentence has one, there is no fair coin",
)


@dataclass(frozen=True, slots=True)
class Context:
    """The rules and the pool of the synonym generator."""

    rules: SynonymRules
    pool: Pool


@dataclass(frozen=True, slots=True)
class OracleSettings:
    """How sentences and pairs are checked. ``LinearitySettings`` and ``ParaphraseSettings`` explain the other settings.

    :param alignment: how phrases are mapped: ``printed`` is Algorithm 1; ``covering`` must cover both sentences.
    :param whole: whether a phrase may be mapped to the whole other sentence.
    :param no_tests: tests of a "no".
    :param askings: how often the sanity checks ask the same question.
    :param temperature: of every question. Repeated samples are only meaningful above 0. None is the server's default;
        models on this machine then return the most probable reply each time.
    :param search: the sentences and pairs to search for counterexamples; ``rejected``: those that the measurement
        rejected.
    :param shrink_calls: maximum requests of one search. To isolate two of twelve entities takes about 35 sentences,
        each asked about ``samples`` times.
    :param replications: how often the sentences of a counterexample are asked about again, with new samples.
    """

    samples: int = 11
    tests: int = 5
    rule: Rule = "any"
    draw: Draw = "uniform"
    synonym_votes: int = 7
    named_votes: int = 11
    paraphrase: bool = False
    alignment: Matching = "printed"
    whole: Whole = "allow"
    phi: Phi = "or"
    no_tests: int = 1
    paraphrases: int = 5
    indifferentiable: Literal["asked", "potential", "random"] = "asked"
    source: Literal["even", "indifferentiable"] = "indifferentiable"
    ask_identical: bool = True
    reference: bool = True
    askings: int = 5
    temperature: float | None = 1.0
    max_tokens: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    search: Literal["none", "rejected", "all"] = "rejected"
    shrink_calls: int = 500
    replications: int = 10

    def __post_init__(self) -> None:
        if self.no_tests < 1:
            raise ValueError("no_tests must be at least 1")
        self.linearity()
        self.pairs()
        if not 1 <= self.askings <= 100:
            raise ValueError("askings must be from 1 to 100")
        if self.shrink_calls < 1:
            raise ValueError("shrink_calls must be at least 1")
        if not 0 <= self.replications <= 100:
            raise ValueError("replications must be from 0 to 100")

    def linearity(self) -> LinearitySettings:
        """Return the settings of the linearity checker.

        :raises ValueError: if a number is out of range.
        """
        return LinearitySettings(
            self.samples,
            self.tests,
            self.rule,
            self.draw,
            self.synonym_votes,
            self.named_votes,
            self.paraphrase,
            self.temperature,
            self.max_tokens,
            self.epsilon,
            self.delta,
        )

    def pairs(self) -> ParaphraseSettings:
        """Return the settings of the paraphrase checker.

        :raises ValueError: if a number is out of range.
        """
        return ParaphraseSettings(
            self.phi,
            self.no_tests,
            self.paraphrases,
            self.indifferentiable,
            self.source,
            self.ask_identical,
            self.reference,
        )


class OracleChecker(Benchmark):
    """A checker without right answers accepts the model's answers or rejects them as not trusted."""

    name = "oracle"
    title = "Oracle-checker"
    noun = "oracle cases"
    verb = "has an accepted answer to"
    about = "Do the model's own answers survive a checker that puts further questions to it?"
    task_about = {
        LINEARITY: "Entities are replaced by others of their kind: is each extracted whatever becomes of the others?",
        YES: "The model calls two sentences equivalent: can that be proved, phrase by phrase, by its own answers?",
        NO: "The model calls two sentences not equivalent: does it tell apart which one a paraphrase comes from?",
        CONSISTENCY: "Sanity check: does the model answer alike when it is asked again?",
        OWN: "Sanity check: does the model hold its own paraphrase equivalent, each time?",
        RANDOM: "Sanity check: two unrelated sentences; the answer no must be accepted.",
    }
    controls = frozenset({CONSISTENCY, OWN, RANDOM})
    # A sentence takes up to 27 calls with quick, a pair about six.
    sizes = {
        "small": {LINEARITY: 8, YES: 8, NO: 8, CONSISTENCY: 6, OWN: 6, RANDOM: 6},
        "standard": {LINEARITY: 60, YES: 32, NO: 32, CONSISTENCY: 21, OWN: 21, RANDOM: 21},
    }
    metric_directions = DIRECTIONS
    # A verdict says whether an answer was accepted, and each sample may have another answer.
    one_decision = False
    presentation = frozenset({"search", "shrink_calls", "replications"})
    properties = (LINEARITY, *PAIR_PROPERTIES)
    tasks_by_answer = frozenset({YES, NO})
    protocols = {
        "paper": NamedSettings(OracleSettings(), assumed=_ASSUMED),
        "quick": NamedSettings(
            OracleSettings(
                samples=3,
                tests=3,
                rule="majority",
                draw="informative",
                synonym_votes=1,
                named_votes=1,
                alignment="covering",
                whole="bar",
                indifferentiable="potential",
                source="even",
                ask_identical=False,
                reference=False,
                askings=3,
                max_tokens=400,
                shrink_calls=200,
                replications=5,
            ),
            gives_up=(
                "samples (3 of 11), tests (3 of 5) and votes: at most 27 calls per sentence instead of 165, because"
                " equal vectors share their replies; sentences with one entity; proofs of pairs that need none;"
                " oracle-confirmed alignment of paraphrases"
            ),
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        rules_from = files if files.exists(RULES_FILE) else files.builtin
        rules = parse_rules(rules_from.json(RULES_FILE), RULES_FILE)
        pool_from = files if files.exists(POOL_FILE) else files.builtin
        pool = parse_pool(pool_from.json(POOL_FILE), rules, POOL_FILE)
        measured = tuple(items(files))
        return Loaded((*measured, *sanity_items(measured)), Context(rules, pool))

    def roles_of(self, task: str) -> frozenset[str]:
        return frozenset() if task in (LINEARITY, CONSISTENCY) else frozenset({PARSE, EMBED})

    async def evaluate(
        self, item: Item, context: Context, ask: Ask, protocol: Protocol[OracleSettings]
    ) -> Verdict:
        settings = protocol.settings
        oracle = _oracle(ask, settings)
        rng = protocol.rng(item.id)
        if item.task == LINEARITY:
            labels = tuple(name for name, _ in item["entities"])
            checker = LinearityChecker(settings.linearity(), context.rules, context.pool)
            acceptance = await checker.check(Sentence(item["text"], labels or None), oracle, rng)
            return _verdict(acceptance, {"rule": float(RULES.index(settings.rule))})
        align = Aligner(ask, settings.alignment, settings.whole)
        if item.task == OWN:
            acceptance = await own_paraphrase(
                item["first"], oracle, ParaphraseChecker(settings.pairs(), align), settings.askings
            )
            return _verdict(acceptance)
        pair = Pair(item["first"], item["second"], item["label"])
        if item.task == CONSISTENCY:
            return _verdict(await self_consistency(pair, oracle, settings.askings))
        if item.task == RANDOM:
            acceptance = await random_checker(settings.pairs(), align).check(pair, oracle, rng)
            verdict = _verdict(acceptance)
            if acceptance.values["said_yes"] == 1:
                return replace(
                    verdict, status="wrong", score=0.0, reason=f"unrelated sentences: {acceptance.why}"
                )
            return verdict
        pairs = ParaphraseChecker(settings.pairs(), align)
        acceptance = await pairs.check(pair, oracle, rng)
        verdict = _verdict(acceptance, await null_values(pair, pairs, rng))
        said = acceptance.values["said_yes"]
        return verdict if said < 0 else replace(verdict, task=YES if said else NO)

    def searches(self, item: Item, settings: OracleSettings, name: str) -> bool:
        tasks = (YES, NO) if name in PAIR_PROPERTIES else (LINEARITY,)
        return item.task in tasks and settings.search != "none"

    async def search(
        self,
        item: Item,
        context: Context,
        ask: Ask,
        protocol: Protocol[OracleSettings],
        measured: Measured,
        name: str,
    ) -> Searched | str:
        settings = protocol.settings
        if settings.search == "rejected" and (outcome := (await measured()).given) != "rejected":
            return f"its measurement is {outcome}"
        if name in PAIR_PROPERTIES:
            return await self._pair_search(item, ask, settings, measured, name)
        checker = LinearityChecker(settings.linearity(), context.rules, context.pool)
        # The measurement draws this number first, so the synonyms are the same.
        pool_seed = protocol.rng(item.id).getrandbits(64)
        oracle = _oracle(ask, settings)
        most = settings.shrink_calls, settings.replications
        return await linearity_search(checker, item["text"], oracle, pool_seed, *most)

    def search_calls(self, settings: OracleSettings, name: str) -> int:
        if name in PAIR_PROPERTIES:
            return settings.shrink_calls + MOST_CLAIMS * REQUESTS * settings.replications
        return settings.shrink_calls + 3 * settings.samples * settings.replications

    def plan_remarks(self, items: Sequence[Item], settings: OracleSettings) -> Iterable[str]:
        """Yield the calls of tests that run until a bound is reached: those expected, and their maximum."""
        sentences = sum(item.task == LINEARITY for item in items)
        if sentences and settings.linearity().target is not None:
            yield plan_remark(settings.linearity(), sentences)

    async def _pair_search(
        self, item: Item, ask: Ask, settings: OracleSettings, measured: Measured, name: str
    ) -> Searched | str:
        if name in (YES, NO):
            said = {1.0: YES, 0.0: NO}.get((await measured()).values["said_yes"], "unreadable")
            if said != name:
                return f"its answer is {said}"
        parser = Aligner(ask)
        first, second = [
            Reducible(text, await parser.parsed(text)) for text in (item["first"], item["second"])
        ]
        oracle, most = _oracle(ask, settings), settings.shrink_calls
        made = PAIR_PROPERTIES[name]
        return made(first, second, oracle, settings.paraphrases, most, replications=settings.replications)

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Return the metrics of figure 6 and tables 1 to 5."""
        return metric_rows(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield the bound of an acceptance, and a note that a rejected answer is not turned into its opposite."""
        yield from linearity_remarks([r for r in records if r.task == LINEARITY])
        pairs = {task: [r.values for r in records if r.task == task] for task in (YES, NO)}
        yield from pair_remarks([*pairs[YES], *pairs[NO]], pairs[NO])
        if any(r.task in (YES, NO) for r in records):
            yield "a rejected answer is not trusted; it is never turned into its opposite"


def _oracle(ask: Ask, settings: OracleSettings) -> Oracle:
    async def to_model(chat: Chat) -> Reply:
        return await ask(chat)

    return Oracle(to_model, temperature=settings.temperature, max_tokens=settings.max_tokens)


def _verdict(acceptance: Acceptance, more_values: dict[str, float] | None = None) -> Verdict:
    """Return a checker's decision as a verdict, with ``more_values``."""
    return replace(verdict_of(acceptance), values={**acceptance.values, **(more_values or {})})
