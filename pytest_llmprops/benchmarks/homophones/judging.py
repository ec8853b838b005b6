"""The verdict on a reply about a homophone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pytest_llmprops.benchmarks.homophones.reading import Rules, contains_answer, reading
from pytest_llmprops.benchmarks.homophones.spelling import spelling_distance
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.verdicts import Verdict


def judge(
    item: Item, reply: Reply, rules: Rules, match: Literal["contains", "word"], *, asks: int
) -> Verdict:
    """Return the verdict on a reply. An empty reply, or one cut off before an answer, is ``unparsed``."""
    answers: Sequence[str] = item["answers"]
    result = reading(
        reply.text, answers, match, item.language, rules, word=item["word"], sentence=item["sentence"]
    )
    values = {
        "several": float(result.several),
        "answers_named": float(len(result.answers_named)),
        "function_word": float(item["function_word"]),
        "spelling_distance": round(spelling_distance(item["word"], answers[0]), 4),
        "asks": float(asks),
    }
    if item["dialect"]:
        values["dialect"] = float(item["dialect"] != "general")
    status: Literal["correct", "wrong", "refused", "unparsed"]
    given, reason = ", ".join(result.answers_named) or reply.text, result.reason
    if reply.finish_reason == "content_filter":
        status, reason = "refused", "a content filter refused"
    elif result.correct:
        right = (n for n in result.answers_named if contains_answer(n, answers, "word", item.language))
        status, given = "correct", next(right, answers[0])
    elif result.empty:
        status, reason = "unparsed", "the reply is empty"
    elif result.refused:
        status, given = "refused", reply.text
    elif reply.finish_reason == "length" and not result.answers_named:
        status, reason = "unparsed", "cut off before an answer"
    else:
        status = "wrong"
    return Verdict(status, " / ".join(answers), given, reason, float(status == "correct"), values)
