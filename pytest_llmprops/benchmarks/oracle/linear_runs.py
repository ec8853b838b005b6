"""Runs of several linearity tests on one sentence: all at once, or until one fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_llmprops.benchmarks.oracle.choices import Rule
from pytest_llmprops.benchmarks.oracle.extraction import Samples
from pytest_llmprops.benchmarks.oracle.linear_tests import (
    OneTest,
    Replies,
    answers_under,
    linear_at,
    one_test,
)
from pytest_llmprops.core.linearity import every_test

#: the tests by the rule, and over all combinations of samples
Tested = tuple[list[OneTest], list[OneTest]]


async def run_tests(pairs: Sequence[tuple[int, int]], replies: Replies, rule: Rule) -> Tested:
    """Run all tests at once: by the rule, and over all combinations of samples (for A_rate), in order.

    Under ``any``, every sentence of every test is asked about afresh, as in section 5.1: 3 x tests x samples calls. The
    other rules need a function, so each vector is asked about once.

    :raises BackendError: if a call could not be made.
    """
    vectors = [z for x, y in pairs for z in (x, y, x ^ y)]
    if rule == "any":
        # The first samples of R(0) are those of the sentence itself, which decided its answer.
        times = Counter({0: 1})
        questions = []
        for z in vectors:
            questions.append(replies.fresh(z, times[z]))
            times[z] += 1
    else:
        questions = [replies.of(z) for z in vectors]
    asked = await asyncio.gather(*questions)

    def tests(rule: Rule) -> list[OneTest]:
        f = iter([answers_under(rule, samples, replies.subject) for samples in asked])
        return [one_test(x, y, next(f), next(f), next(f), replies.subject.m) for x, y in pairs]

    by_rule = tests(rule)
    return by_rule, list(by_rule) if rule == "any" else tests("any")


async def run_in_turn(pairs: Sequence[tuple[int, int]], replies: Replies, rule: Rule) -> Tested:
    """Run tests in order until a batch has a failing one; otherwise like :func:`run_tests`.

    The first batch has one test, and each further one has one more than all before it: most extractors that fail do so
    early, and few rounds of requests are needed. If all vectors are known in the end, f is known, and the tests that
    were not drawn need no request. The first of them that fails is added.

    :raises BackendError: if a call could not be made.
    """
    by_rule: list[OneTest] = []
    by_any: list[OneTest] = []

    async def run(batch: Sequence[tuple[int, int]]) -> None:
        more = await run_tests(batch, replies, rule)
        by_rule.extend(more[0])
        by_any.extend(more[1])

    while len(by_rule) < len(pairs) and all(test.passed for test in by_rule):
        await run(pairs[len(by_rule) : 2 * len(by_rule) + 1])
    if all(test.passed for test in by_rule) and covers_all(by_rule, replies.subject.m):
        f = replies.function(rule)
        for x, y in every_test(replies.subject.m):
            if not (await linear_at(x, y, f, replies.subject.m)).passed:
                await run([(x, y)])
                break
    return by_rule, by_any


def covers_all(tests: Iterable[OneTest], m: int) -> bool:
    """Return whether the tests have asked about every vector other than 0."""
    return len({z for test in tests for z in test.vectors} - {0}) == (1 << m) - 1


def sentences_of(tests: Iterable[OneTest], rule: Rule) -> list[tuple[int, Samples]]:
    """Return the vectors of ``tests`` with the replies about their sentences: every asking under ``any``.

    Under the other rules, where equal vectors share their replies, each vector occurs once.
    """
    every = [pair for test in tests for pair in zip(test.vectors, test.samples, strict=True)]
    return every if rule == "any" else list(dict(every).items())
