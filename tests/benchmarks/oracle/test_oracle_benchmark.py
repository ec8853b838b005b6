"""The oracle-checker as a benchmark: statuses, tasks by the answer, sanity items, settings, helpers, remarks."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops import Acceptance, Bound, CheckerBenchmark, Item, Reply
from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.metrics import PREFIX, shallow
from pytest_llmprops.benchmarks.oracle.scheme import fill
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Request
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.engine.evaluation.evaluator import Case, evaluate
from tests.support.oracle_runs import Subject, context, control, pair, sentence, verdict_on, with_helper
from tests.support.records import verdict as record
from tests.support.scripted import measured, replied

ORACLE = OracleChecker()
TOWNS = sentence("Then Oslo wrote to Lima about Quito.", 1, ["Oslo", "Quito"])
DOGS, MOVED = "red dogs barked loudly last night.", "last night red dogs barked loudly."
CATS = "small cats slept under warm tables."
PROTOCOL = resolve("oracle", ORACLE.protocols, "quick", {}, 0)
ALIKE, UNLIKE = pair(DOGS, MOVED, 1), pair(DOGS, CATS, 2, label=False)


def reordered(text: str) -> list[str]:
    """A paraphrase: the same phrases in another order."""
    words = text.rstrip(".").split()
    return [" ".join([*words[2:], *words[:2]]) + "."]


def model(same: Any = None) -> Subject:
    """Call texts equivalent if they have the same words, unless configured otherwise."""
    judge = same or (
        lambda first, second: sorted(first.strip(".").split()) == sorted(second.strip(".").split())
    )
    return Subject(None, judge, reordered)


@pytest.mark.parametrize(
    ("rule", "number", "bound"), [("any", 0, "no bound: best of"), ("majority", 1, "0.1-far")]
)
def test_the_rule_is_recorded(rule: str, number: int, bound: str) -> None:
    """The values contain the rule as a number, and the remark on the bound can be derived from it."""
    verdict = verdict_on(TOWNS, model(), rule=rule, samples=11)
    assert (verdict.evidence["read_by"], verdict.values["rule"]) == ("list", number)
    said, *_ = ORACLE.remarks([record("linearity", 1, benchmark="oracle", values=dict(verdict.values))])
    assert bound in said


@pytest.mark.parametrize(
    ("item", "same", "status", "given"),
    [
        (ALIKE, None, "correct", "accepted-yes"),
        (UNLIKE, lambda a, b: a.endswith("."), "wrong", "rejected"),
        (UNLIKE, None, "correct", "accepted-no"),
        (ALIKE, lambda a, b: (a, b) != (DOGS, MOVED), "wrong", "rejected"),
        (UNLIKE, lambda a, b: False, "wrong", "rejected"),
        (UNLIKE, lambda a, b: "perhaps", "unparsed", "unreadable"),
    ],
    ids=["proved", "not proved", "trusted", "triangular", "inconsistent", "unreadable"],
)
def test_pairs_are_accepted_or_rejected(item: Item, same: Any, status: str, given: str) -> None:
    """A "yes" needs a proof and a "no" a passed test; a rejected answer never becomes its opposite."""
    verdict = verdict_on(item, model(same))
    assert (verdict.status, verdict.given, verdict.score) == (status, given, float(status == "correct")), (
        verdict.reason
    )
    assert list(verdict.evidence)[:2] == ["sentence_1", "sentence_2"]
    assert (verdict.evidence["read_by"] == "JSON") == (status != "unparsed")
    # An unreadable answer keeps the task of its label.
    tasks: dict[float, str] = {1: "yes", 0: "no", -1: ""}
    assert verdict.task == tasks[verdict.values["said_yes"]]
    assert verdict.values["label"] == item["label"]
    features = {PREFIX + name: value for name, value in shallow(item["first"], item["second"]).items()}
    assert features.items() <= verdict.values.items()


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("breaking", "no tree for 'breaking dogs': wordpairs fails: IndexError"),
        ("unparsable", "no tree for 'unparsable dogs': no tree here"),
        ("x " * 700, "wordpairs: the text has 701 tokens, the model takes 512"),
        ("vectorless", "no vectors for 'vectorless dogs': the encoder returned spans of shape"),
        ("lopsided", "the encoder's vectors of two sentences have "),
    ],
    ids=["parser error", "no tree", "too long", "too few vectors", "vectors of another size"],
)
def test_text_that_a_helper_cannot_process(word: str, reason: str) -> None:
    """A text without a tree or vectors is not an error: a "yes" about it is untested with the reason."""
    text = " ".join(f"{word} dogs".split())
    for item in (pair(text, DOGS, 3), pair(DOGS, text, 3)):
        verdict = verdict_on(item, model(lambda first, second: True))
        assert (verdict.status, verdict.given) == ("untested", "untested")
        assert verdict.values["trees_missing"] == 1
        assert reason in verdict.reason
        assert "\n" not in verdict.reason
        no = verdict_on(item, model(lambda first, second: False))
        assert {"trees_missing": 1, "category_or": 4}.items() <= no.values.items()


def test_paraphrase_that_a_helper_cannot_process() -> None:
    """A paraphrase of 700 words cannot be aligned, but it is not an error and can be drawn."""
    long = "so " * 700 + "another thing."
    for wordy in (long, "breaking news.", "vectorless news."):
        judge = lambda first, second: first in (DOGS, wordy) and second == DOGS  # noqa: E731, B023
        subject = Subject(same=judge, paraphrases=lambda text: [wordy] if text == DOGS else [])  # noqa: B023
        verdict = verdict_on(UNLIKE, subject)
        assert (verdict.status, verdict.given, verdict.task) == ("correct", "accepted-no", "no")
        # The sentences themselves have trees.
        expected = {"category_or": 4, "trees_missing": 0}
        assert expected.items() <= verdict.values.items()
        own = verdict_on(control(UNLIKE, "own_paraphrase"), subject)
        assert (own.status, own.values["phi_or"], own.values["trees_missing"]) == ("wrong", 0, 1)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "backend", "transient": True},
        {"kind": "request", "fatal": True},
        {"kind": "model"},
        {"kind": "closed"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("role", "text_fails_too"), [("parse", True), ("embed", False)])
def test_failing_helper_is_an_error(fault: Any, role: str, text_fails_too: bool) -> None:
    """A failure of the helper itself is an error of the case, even next to a failure caused by the text."""
    error = BackendError("cannot be used", **fault)

    async def ask(label: str, asked: str, request: Request) -> Reply:
        if asked == role:
            await asyncio.sleep(0)
            raise error
        if asked != "subject" and text_fails_too:
            raise BackendError("the text is too long", kind="request")
        return replied(with_helper(model(lambda first, second: True)), request)

    case = Case(ORACLE, ALIKE, context(), PROTOCOL, "m", helpers={"parse": "p", "embed": "e"})
    outcome = asyncio.run(evaluate(case, ask))
    assert (outcome.verdict, outcome.error) == (None, error)


def test_sanity_checks() -> None:
    """Repeated answers must agree; an own paraphrase is checked; a proved "yes" on a random pair is wrong."""
    turns = iter([True, False] * 10)
    for task, judge, status, given in (
        ("consistency", None, "correct", "consistent"),
        ("consistency", lambda a, b: next(turns), "wrong", "inconsistent"),
        ("own_paraphrase", None, "correct", "consistent"),
        ("own_paraphrase", lambda a, b: False, "wrong", "denied"),
        ("random_pair", None, "wrong", "accepted-yes"),
    ):
        verdict = verdict_on(control(ALIKE, task), model(judge))
        assert (verdict.status, verdict.given) == (status, given)
    assert verdict.reason.startswith("unrelated sentences: yes, proved")
    assert verdict_on(control(UNLIKE, "random_pair"), model()).given == "accepted-no"


def test_sanity_items_come_from_the_pairs() -> None:
    """Sanity items use the same third of the pairs in every run; random pairs mix first sentences."""
    items = loaded(ORACLE, DataFolder(builtin_data(), "builtin")).items
    assert items == loaded(ORACLE, DataFolder(builtin_data(), "builtin")).items
    tasks = Counter(item.task for item in items)
    pairs = {item.id: item for item in items if item.task in ("yes", "no")}
    assert ORACLE.controls == {*tasks} - {"linearity", "yes", "no"}
    for task in ("consistency", "own_paraphrase", "random_pair"):
        assert tasks[task] == len(pairs) // 3
    firsts = {item["first"] for item in pairs.values()}
    for item in items:
        if item.task in ("consistency", "own_paraphrase"):
            base = pairs[item.id.removesuffix(f"+{item.task}")]
            assert (base.fields, base.cluster) == (item.fields, item.cluster)
        elif item.task == "random_pair":
            assert {item["first"], item["second"]} <= firsts
            assert item["first"] != item["second"]


def test_settings_out_of_range() -> None:
    """A setting out of its range gives one line that names it."""
    for setting, value in (
        ("samples", "0"), ("samples", "101"), ("tests", "0"), ("rule", "all"), ("synonym_votes", "0"),
        ("phrases", "no"), ("alignment", "no"), ("askings", "0"), ("max_tokens", "0"), ("temperature", "-1"),
        ("temperature", "nan"), ("search", "some"), ("nosuch", "1"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=rf"oracle\.{setting}|{setting} must"):
            resolve("oracle", ORACLE.protocols, "quick", {setting: value}, 0)


def test_helpers_by_task() -> None:
    """Only pairs need trees and vectors; sentences are measured without a helper."""
    roles = {task: ORACLE.roles_of(task) for task in ORACLE.task_about}
    assert roles["linearity"] == roles["consistency"] == frozenset()
    assert {roles[task] for task in ("yes", "no", "own_paraphrase", "random_pair")} == {
        frozenset({"parse", "embed"})
    }
    assert ORACLE.tasks_by_answer == {"yes", "no"}


def test_own_pool(tmp_path: Path) -> None:
    """A user's pool file replaces the built-in file; built-in sentences get each other's entities (appendix A.2)."""
    folder = tmp_path / "oracle"
    folder.mkdir()
    (folder / "sentences.txt").write_text("Then Oslo wrote.\n", encoding="utf-8")
    (folder / "pool.json").write_text('{"classes": {"city": ["Kirkwall"]}}', encoding="utf-8")
    part = loaded(ORACLE, DataFolder(tmp_path, "generated"))
    assert [item.id for item in part.items] == ["oracle/own/0001"]
    assert part.context.pool == {"city": ("Kirkwall",)}
    builtin = loaded(ORACLE, DataFolder(builtin_data(), "builtin"))
    labelled = {name for item in builtin.items if item.task == "linearity" for name, _ in item["entities"]}
    assert {*builtin.context.pool["city"]} <= labelled


class Own(CheckerBenchmark):
    """A benchmark as a user writes it, whose checker asks once and refuses."""

    name = "own"
    protocols = ORACLE.protocols

    def checker(self, item: Item, context: Any, ask: Any, settings: Any) -> Any:
        return self

    async def check(self, x: Any, oracle: Any, rng: Any) -> Acceptance:
        reply = await oracle(f"{x['x']} {rng.random():.3f}")
        return Acceptance(False, "refused", reply.text, {"e": "1"}, Bound("worth something"), {"v": 2.0})


def test_a_checkers_decision_is_the_verdict() -> None:
    """The outcome decides the status, all values are kept, and the item seeds the checker's choices."""
    item = Item("own/1", "t", "en", fields={"x": "Why?"})
    (first, calls), (second, again) = (measured(Own(), item, None, lambda chat: "because") for _ in range(2))
    assert first.verdict == second.verdict == Verdict(
        "refused", "accepted", "refused", "because", 0.0, {"v": 2.0}, {"e": "1", "bound": "worth something"}
    )  # fmt: skip
    [(_, chat)] = calls
    assert calls == again
    assert isinstance(chat, Chat)
    assert chat == Chat.user(chat.prompt, temperature=1.0, max_tokens=400)
    assert chat.prompt.startswith("Why? 0.")


def test_a_checker_must_be_named() -> None:
    """A benchmark without a checker gives an error that says what to write."""
    with pytest.raises(NotImplementedError, match="must define checker"):
        CheckerBenchmark().checker(TOWNS, None, None, None)  # type: ignore[arg-type]


def test_templates_are_filled_once() -> None:
    """Every occurrence of a field is replaced; other braces and braces in values are unchanged."""
    assert fill('{a} and {b}, {a}; {c} {"k": 1} {', a="{b}", b="x") == '{b} and x, {b}; {c} {"k": 1} {'
    assert fill("never {a", a=1) == "never {a"
    assert fill("type {entity-type}", entity_type="city") == "type city"
