"""One case in the Allure report: title, labels, description, steps and attachments, as plain values.

Replies and the texts of items are untrusted. HTML is escaped; other text is plain text with visible control characters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.registration import title_of
from pytest_llmprops.core.requests import Chat, Completion, Likelihood, Reply, Request, request_to_json
from pytest_llmprops.core.texts import one_line, shortened, visible
from pytest_llmprops.core.verdicts import VerdictRecord, evidence_texts
from pytest_llmprops.reports.kit.blocks import language

#: maximum characters of an attachment; a longer text keeps its beginning and end
MOST = 60_000
_HEAD = 10_000
#: characters of a question in a description
_QUESTION = 600
#: one in this many passed cases has attachments
SAMPLE = 20
#: beginnings of one-line messages, by which Allure's categories match
FAULT = "fault in benchmark code"
EXPECTATION = "unmet expectation"
#: a regex: Allure's results put the kind of error before the message of a search
COUNTEREXAMPLE = "(AssertionError: )?counterexample"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text attached to a case or a step."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One call to a model. ``seconds`` is the duration in this run, 0 for a stored reply."""

    name: str
    passed: bool
    seconds: float
    parameters: tuple[tuple[str, str], ...]
    attachments: tuple[Attachment, ...] = ()
    message: str = ""


def bounded(text: str) -> str:
    """Return :func:`visible` text of at most ``MOST`` characters; the end, with the question, is kept."""
    text = visible(text)
    if len(text) <= MOST:
        return text
    left_out = len(text) - MOST
    note = f"\n\n[… {left_out:,} characters left out; the whole text is in requests.jsonl …]\n\n"
    return text[:_HEAD] + note + text[-(MOST - _HEAD) :]


def labels(benchmark: Benchmark, item: Item, model: str) -> list[tuple[str, str]]:
    """Return the labels of a case: benchmark, task and language as epic, feature and story; severity; suites; tags.

    A wrong answer is ``critical`` in a main task and ``minor`` in a control: controls help to interpret the main
    result, and a failed control is not a failure of the model.
    """
    control = item.task in benchmark.controls
    task = item.task.replace("_", " ")
    epic = title_of(type(benchmark))
    pairs = [
        ("epic", epic),
        ("feature", task),
        ("story", f"{language(item.language)}, {item.source} items"),
        ("severity", "minor" if control else "critical"),
        ("parentSuite", model),
        ("suite", epic),
        ("subSuite", task),
        ("tag", model),
    ]
    return [*pairs, ("tag", "control")] if control else pairs


def title(benchmark: Benchmark, item: Item, name: str) -> str:
    """Return the title of a case: what a person recognises the item by, and its id."""
    try:
        caption = one_line(benchmark.caption(item), 80)
    except Exception:
        # A mistake in a benchmark costs the title, not the result.
        caption = ""
    return f"{caption} ({name})" if caption else name


def description(
    benchmark: Benchmark, item: Item, doc: str, record: VerdictRecord | None, request: Request | None
) -> str:
    """Return the question, the expected and the given answer, and what the case tests, as escaped HTML paragraphs.

    :param doc: the test function's docstring. :param record: the verdict; None for a case of several items.
    :param request: the first request to the model; its end is the question, after examples and instructions. None
        leaves out the question and the answer, of a case without calls or with ``llm_attach = none``.
    """
    question = "" if request is None else prompt_text(request).strip()
    if len(question) > _QUESTION:
        question = "…" + question[-_QUESTION:]
    parts = [_paragraph(f"Question: {question}")] if question else []
    if record is not None and record.expected:
        parts.append(_paragraph(f"Expected answer: {shortened(record.expected, 300)}"))
    if record is not None and record.given and request is not None:
        parts.append(_paragraph(f"Answer: {shortened(record.given, 300)}"))
    about = " ".join(filter(None, (benchmark.about, " ".join(doc.split()))))
    task = benchmark.task_about.get(item.task, "")
    if about:
        parts.append(_paragraph(about))
    if task:
        parts.append(_paragraph(f"{item.task.replace('_', ' ')}: {task}"))
    if item.task in benchmark.controls:
        parts.append(_paragraph("A control: it shows what the other clues alone are worth."))
    return "".join(parts)


def _paragraph(text: str) -> str:
    return f"<p>{escape(visible(text))}</p>"


def step(role: str, model: str, request: Request, reply: Reply | None, error: str, *, attach: bool) -> Step:
    """Return the step of one call: model, cost, and with ``attach`` the prompt and the reply."""
    who = model if role == "subject" else f"{role} ({model})"
    texts = [Attachment("prompt", bounded(prompt_text(request)))] if attach else []
    if reply is None:
        return Step(f"{who} did not answer", False, 0.0, (), tuple(texts), visible(error))
    if attach:
        if reply.reasoning:
            # A page of its own, closed until it is clicked.
            texts.append(
                Attachment(f"thoughts ({len(reply.reasoning):,} characters)", bounded(reply.reasoning))
            )
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
    """Return the request as text: a single user message as it is, several messages with their roles."""
    if isinstance(request, Completion):
        return request.text
    if isinstance(request, Likelihood):
        return "\n".join([request.text, "", "Scored continuations:", *map(repr, request.options)])
    if not isinstance(request, Chat):
        return json.dumps(request_to_json(request), ensure_ascii=False, indent=1)
    if len(request.messages) == 1 and request.messages[0].role == "user":
        return request.messages[0].content
    return "\n\n".join(f"[{m.role}]\n{m.content}" for m in request.messages)


def reply_text(reply: Reply) -> str:
    """Return the reply's text, or its value as JSON with the shapes of arrays."""
    if reply.text or reply.value is None:
        return reply.text
    return json.dumps(reply.value, ensure_ascii=False, indent=1, default=_array)


def _array(value: Any) -> str:
    # Vectors are numpy arrays; the numbers would not help a reader.
    shape = " x ".join(map(str, getattr(value, "shape", ())))
    return f"{shape} numbers" if shape else type(value).__name__


def verdict_text(record: VerdictRecord) -> str:
    """Return verdict, expected and given answer, reason, values and evidence, one per line."""
    rows = [("verdict", str(record.status)), ("expected", record.expected), ("given", record.given)]
    rows.append(("reason", record.reason))
    rows += [(name, f"{value:g}") for name, value in record.values.items()]
    rows += evidence_texts(record.evidence)
    width = max(len(name) for name, _ in rows)
    indent = "\n" + " " * (width + 2)
    lines = (f"{name:<{width}}  {value or '-'}".replace("\n", indent) for name, value in rows)
    return bounded("\n".join(lines))


def failures(records: Sequence[VerdictRecord], total: int, noun: str) -> Attachment:
    """Return the first verdicts of a case that are not correct, one per line.

    :param total: number of all verdicts that are not correct. :param noun: what they are: ``items`` or ``samples``.
    """
    rows = []
    for r in records:
        name = f"{r.id} sample {r.sample}" if noun == "samples" else r.id
        rows.append(f"{r.status}\t{name}\texpected {r.expected or '-'}\tgiven {r.given or '-'}\t{r.reason}")
    if total > len(rows):
        rows.append(f"… and {total - len(rows)} more in verdicts.jsonl; {len(rows)} are listed here")
    text = "\n".join(" ".join(row.split("\n")) for row in rows)
    return Attachment(f"{noun} that are not correct", bounded(text))


def in_sample(seed: int, item_id: str) -> bool:
    """Return True if a passed case has attachments: 1 in ``SAMPLE`` has, chosen by seed and id."""
    digest = hashlib.sha256(f"allure\0{seed}\0{item_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % SAMPLE == 0


def message(kind: str, text: str) -> str:
    """Return a one-line message ``kind: text``; Allure's categories match its beginning."""
    return visible(f"{kind}: " + " ".join(text.split()))
