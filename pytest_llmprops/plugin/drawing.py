"""A sequential gate at work: cases are asked block by block, until the decision is settled.

With workers, every block is spread over all of them. A worker posts each verdict to the broker's process, and
the worker that owns the first case of the next block looks at all of them; the others wait for its finding.
When a worker is lost, whoever waits for it does its part: replies that were paid for come from the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.engine.evaluator import Case, Outcome
from pytest_llmprops.engine.session import Engine
from pytest_llmprops.plugin.gating import Gating, place_of
from pytest_llmprops.runs.gate import decide, rule_open, settled
from pytest_llmprops.runs.gate_draw import blocks, plan_of

Key = tuple[str, str, str]
#: the rules that still need items; none when the decision is settled
Look = list[str]


class Drawing:
    """The blocks of one session, and how far they have come.

    :param facts: what ``run.json`` knows before any reply (models, protocols, data, options).
    """

    def __init__(
        self, gating: Gating, cases: Sequence[Case], facts: Mapping[str, Any], *, concurrency: int, seed: int
    ) -> None:
        self._gating = gating
        places = [place_of(case) for case in cases]
        order = blocks(gating.gate, places, concurrency=concurrency, seed=seed)
        self._blocks = [[cases[p] for p in block] for block in order]
        self._block_of = {case.key: n for n, block in enumerate(self._blocks) for case in block}
        self._rules_of = {
            case.key: {rule.name for rule in gating.gate.rules if rule.matches(place)}
            for case, place in zip(cases, places, strict=True)
        }
        baseline = gating.baseline
        self.plan = plan_of(gating.gate, places, baseline.records if baseline is not None else (), seed)
        # What only replies tell is compared when the run ends: until then, let it be as in the baseline.
        told_later = {n: baseline.facts.get(n, {}) if baseline else {} for n in ("helpers", "deviations")}
        self._facts = {**facts, **told_later, "sequential": self.plan, "metrics": []}
        self._share: Mapping[Key, int] = {}
        self._exchange: Engine | None = None
        self._records: dict[Key, VerdictRecord] = {}
        self._looks: list[Look] = []
        self._begun: set[tuple[int, int]] = set()
        #: outcomes that a look needed before pytest came to their cases
        self._ahead: dict[Key, Outcome] = {}

    @property
    def ordered(self) -> list[Case]:
        """All cases, block after block."""
        return [case for block in self._blocks for case in block]

    def spread(self, share: Mapping[Key, int], exchange: Engine) -> None:
        """Several processes take part: which share each case belongs to, and how to tell the others."""
        self._share, self._exchange = share, exchange

    def reach(self, case: Case, engine: Engine) -> bool:
        """Make sure that the case's block is in work; False when the case is not needed.

        :raises RunStopped: when the run was stopped. :raises BackendError: when the broker's process ended.
        """
        share, block = self._share_of(case), self._block_of[case.key]
        while len(self._looks) <= block:
            number = len(self._looks)
            if number:
                self._complete(self._needed(number - 1, share), engine)
            self._looks.append(self._look(number, share, engine))
        if not self._is_needed(case, block):
            return False
        if (block, share) not in self._begun:
            self._begun.add((block, share))
            engine.submit(c for c in self._needed(block, share) if c.key not in self._ahead)
        return True

    def take(self, case: Case) -> Outcome | None:
        """The outcome of a case that a look needed already."""
        return self._ahead.pop(case.key, None)

    def add(self, outcome: Outcome) -> None:
        """Note what became of a case, and tell the others.

        :raises BackendError: when the broker's process ended.
        """
        key = outcome.case.key
        if outcome.stopped is not None or key in self._records:
            return
        # A look reads no text or number of the benchmark's own: they stay where they are.
        record = replace(
            outcome.record(), expected="", given="", reason="", values={}, evidence={}, requests=()
        )
        self._records[key] = record
        if self._exchange is not None:
            self._exchange.post(_name(key), record.to_json())

    def _share_of(self, case: Case) -> int:
        return self._share.get(case.key, 0)

    def _is_needed(self, case: Case, block: int) -> bool:
        return bool(self._rules_of[case.key].intersection(self._looks[block]))

    def _needed(self, block: int, share: int | None = None) -> list[Case]:
        return [
            case
            for case in self._blocks[block]
            if self._is_needed(case, block) and share in (None, self._share_of(case))
        ]

    def _complete(self, cases: Sequence[Case], engine: Engine, *, wait: bool = False) -> None:
        """See to it that all ``cases`` have a record: told by others, with ``wait`` in time, or made here."""
        missing = [case for case in cases if case.key not in self._records]
        if missing and self._exchange is not None:
            told = self._exchange.gather([_name(case.key) for case in missing], wait=wait)
            self._records |= {
                case.key: VerdictRecord.from_json(record)
                for case, record in zip(missing, told, strict=True)
                if record is not None
            }
            missing = [case for case in missing if case.key not in self._records]
        engine.submit(missing)
        for case in missing:
            outcome = engine.outcome(case)
            if outcome.stopped is not None:
                raise RunStopped(outcome.stopped)
            self._ahead[case.key] = outcome
            self.add(outcome)

    def _look(self, block: int, share: int, engine: Engine) -> Look:
        if block and not self._looks[-1]:
            return []
        if self._exchange is None:
            return self._find()
        name = f"look {block}"
        own = self._share_of(self._blocks[block][0]) == share
        look: Look | None = self._exchange.gather([name], wait=not own)[0]
        if look is None:
            self._complete([case for b in range(block) for case in self._needed(b)], engine, wait=True)
            look = self._find()
            self._exchange.post(name, look)
        return look

    def _find(self) -> Look:
        result = decide(
            self._gating.gate, self._facts, list(self._records.values()), self._gating.baseline, running=True
        )
        return [] if settled(result) else [rule.name for rule in result.rules if rule_open(rule)]


def _name(key: Key) -> str:
    return "case " + "|".join(key)
