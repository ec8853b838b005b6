"""One case as the Allure report shows it: title, labels, description, steps and attachments, as plain values.

Replies and the texts of items are untrusted: what is HTML here is escaped, all else is plain text with its
control characters made visible.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.evidence import evidence_texts
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.registration import title_of
from pytest_llmprops.core.requests import Chat, Reply, Request, request_to_json
from pytest_llmprops.core.texts import shortened, visible

#: characters of one attachment; of a longer text the beginning and the end are kept
MOST = 60_000
_HEAD = 10_000
#: of how many passes one carries its attachments
SAMPLE = 20
LANGUAGES = {"en": "English", "zh": "Chinese", "es": "Spanish"}
#: the status of a case -> how its one-line message begins; the categories go by it
FAULT = "fault in benchmark code"
EXPECTATION = "unmet expectation"
#: as Allure's results have it: the kind of error stands before the message of a search
COUNTEREXAMPLE = "(AssertionError: )?counterexample"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text to be shown beside a case or a step."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One call to a model. ``seconds`` is the time it took in this run: 0 for a stored reply."""

    name: str
    passed: bool
    seconds: float
    parameters: tuple[tuple[str, str], ...]
    attachments: tuple[Attachment, ...] = ()
    message: str = ""


def bounded(text: str) -> str:
    """:func:`visible` text of at most ``MOST`` characters; the end, where the question stands, is kept."""
    text = visible(text)
    if len(text) <= MOST:
        return text
    left_out = len(text) - MOST
    note = f"\n\n[… {left_out:,} characters left out; the whole text is in requests.jsonl …]\n\n"
    return text[:_HEAD] + note + text[-(MOST - _HEAD) :]


def labels(benchmark: Benchmark, item: Item, model: str) -> list[tuple[str, str]]:
    """Labels of a case: benchmark, task and language as epic, feature and story; severity; suites and tags.

    A wrong answer to a main task is ``critical``, to a control ``minor``: controls say how the main result
    is to be read, and failing them is no fault of the model.
    """
    control = item.task in benchmark.controls
    task = item.task.replace("_", " ")
    epic = title_of(type(benchmark))
    found = [
        ("epic", epic),
        ("feature", task),
        ("story", f"{LANGUAGES.get(item.language, item.language)}, {item.source} items"),
        ("severity", "minor" if control else "critical"),
        ("parentSuite", model),
        ("suite", epic),
        ("subSuite", task),
        ("tag", model),
    ]
    return [*found, ("tag", "control")] if control else found


def description(benchmark: Benchmark, item: Item, doc: str, expected: str) -> str:
    """What the case tests, as HTML of paragraphs in which every text is escaped.

    :param doc: the test function's docstring. :param expected: the expected answer; may be empty.
    """
    about = " ".join(filter(None, (benchmark.about, " ".join(doc.split()))))
    task = benchmark.task_about.get(item.task, "")
    parts = [_paragraph(about)] if about else []
    if task:
        parts.append(_paragraph(f"{item.task.replace('_', ' ')}: {task}"))
    if item.task in benchmark.controls:
        parts.append(_paragraph("A control: it shows what the other clues are worth by themselves."))
    if expected:
        parts.append(_paragraph(f"Expected answer: {shortened(expected, 300)}"))
    return "".join(parts)


def _paragraph(text: str) -> str:
    # Entities for what a Markdown or link filter behind this could still take up.
    return f"<p>{escape(visible(text))}</p>"


def step(role: str, model: str, request: Request, reply: Reply | None, error: str, *, attach: bool) -> Step:
    """One call: who was asked, at what cost, and with ``attach`` the prompt and the reply."""
    who = model if role == "subject" else f"{role} ({model})"
    texts = [Attachment("prompt", bounded(prompt_text(request)))] if attach else []
    if reply is None:
        return Step(f"{who} did not answer", False, 0.0, (), tuple(texts), visible(error))
    if attach:
        texts.append(Attachment("reply", bounded(reply_text(reply)) or "(an empty reply)"))
    took = f"{reply.seconds:.2f} s"
    usage = reply.usage
    tokens = f"{usage.prompt_tokens} + {usage.completion_tokens}"
    if usage.reasoning_tokens:
        tokens += f" ({usage.reasoning_tokens} of them reasoning)"
    parameters = [
        ("time", f"from the store; took {took} when it was made" if reply.cached else took),
        ("tokens", tokens),
        ("finish reason", reply.finish_reason),
    ]
    if reply.served_model and reply.served_model != model:
        parameters.append(("served model", reply.served_model))
    plain = tuple((name, visible(value)) for name, value in parameters)
    return Step(f"ask {who}", True, 0.0 if reply.cached else reply.seconds, plain, tuple(texts))


def prompt_text(request: Request) -> str:
    """The request as a person reads it: a lone user turn as it is, several under their roles."""
    if not isinstance(request, Chat):
        return json.dumps(request_to_json(request), ensure_ascii=False, indent=1)
    if len(request.messages) == 1 and request.messages[0].role == "user":
        return request.messages[0].content
    return "\n\n".join(f"[{m.role}]\n{m.content}" for m in request.messages)


def reply_text(reply: Reply) -> str:
    """The reply's text, or for other kinds than chat its value as JSON, in which an array is its shape."""
    if reply.text or reply.value is None:
        return reply.text
    return json.dumps(reply.value, ensure_ascii=False, indent=1, default=_array)


def _array(value: Any) -> str:
    # Vectors come as numpy's arrays; their numbers would tell a person nothing.
    shape = " x ".join(map(str, getattr(value, "shape", ())))
    return f"{shape} numbers" if shape else type(value).__name__


def verdict_text(record: VerdictRecord) -> str:
    """Return verdict, expected and given answer, reason, values and evidence, one below the other."""
    rows = [("verdict", str(record.status)), ("expected", record.expected), ("given", record.given)]
    rows.append(("reason", record.reason))
    rows += [(name, f"{value:g}") for name, value in record.values.items()]
    rows += evidence_texts(record.evidence)
    width = max(len(name) for name, _ in rows)
    indent = "\n" + " " * (width + 2)
    lines = (f"{name:<{width}}  {value or '-'}".replace("\n", indent) for name, value in rows)
    return bounded("\n".join(lines))


def in_sample(seed: int, item_id: str) -> bool:
    """Whether a passed case is one of the 1 in ``SAMPLE`` that carry their attachments, by seed and id."""
    digest = hashlib.sha256(f"allure\0{seed}\0{item_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % SAMPLE == 0


def message(kind: str, text: str) -> str:
    """A one-line message ``kind: text``, by whose beginning the categories tell cases apart."""
    return visible(f"{kind}: " + " ".join(text.split()))


def total_seconds(steps: Sequence[Step]) -> float:
    """Time of a case's calls in this run, one after the other."""
    return sum(s.seconds for s in steps)
