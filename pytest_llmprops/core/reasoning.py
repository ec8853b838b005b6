"""Split a reply into what a model thinks and what it answers.

Benchmarks read the answer only. Servers with a parser return the thoughts in a field of their own. Without one, they
are part of the text, in the tags of the model's chat template:

- ``<think>``, ``<thinking>``, ``<thought>``, ``<reasoning>`` (DeepSeek-R1, Qwen3 and models trained like them);
- ``[THINK]`` (Magistral); ``◁think▷`` (Kimi);
- the channels of gpt-oss (OpenAI's harmony format), of which ``final`` is the answer.

The templates of some models (DeepSeek-R1) write the opening tag at the end of the prompt, so that a reply has only the
closing one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_llmprops.core.requests import Reply

# It begins with one class of characters, so that the search passes over the text of a thought quickly.
_TAGS = re.compile(
    r"[<\[◁`~](?:(?P<slash>/?)(?:think(?:ing)?|thought|reasoning)\s*[>\]▷]|(?P<fence>``|~~))", re.IGNORECASE
)
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_CHANNEL_TOKENS = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|constrain|>",
)
_LONGEST_TAG = 16
# A server that removes special tokens leaves the names of the channels and roles.
_BARE_CHANNELS = re.compile(r"\Aanalysis(?=[A-Z\"'“(])")
_BARE_FINAL = "assistantfinal"


@dataclass(frozen=True, slots=True)
class Parts:
    """A text, divided.

    :param is_cut: the text ends inside a thought.
    :param lacks_opening: it has a closing tag without an opening one.
    :param start: where the answer begins in the original text; None if the answer is not its end.
    """

    text: str
    reasoning: str = ""
    is_cut: bool = False
    lacks_opening: bool = False
    start: int | None = 0


def split_reasoning(text: str, *, is_complete: bool = True) -> Parts:
    """Return the thoughts and the answer in the text of a reply, in linear time.

    Tags in a code fence, or directly between backticks, are quoted and stay in the answer.

    :param is_complete: the model ended the reply itself. A thought that only names an opening tag then has an end.
    """
    if not ("<" in text or "[" in text or "◁" in text or text.startswith("analysis")):
        # Most replies end here.
        return Parts(text)
    if "<|channel|>" in text:
        return _split_channels(text)
    if _BARE_CHANNELS.match(text):
        thought, final, answer = text.partition(_BARE_FINAL)
        thought = thought.removeprefix("analysis").strip()
        return Parts(answer.strip(), thought, is_cut=not final, start=_place(text, answer) if final else None)
    return _split_tags(text, is_complete)


def _split_tags(text: str, is_complete: bool) -> Parts:
    tags = [tag for tag in _TAGS.finditer(text) if not tag["fence"] or _begins_line(text, tag.start())]
    fences = sum(1 for tag in tags if tag["fence"])
    if fences == len(tags):
        return Parts(text)
    thoughts: list[str] = []
    answers: list[str] = []
    depth = position = 0
    is_quoted = lacks_opening = False
    after_closing = 0
    for tag in tags:
        if tag["fence"]:
            fences -= 1
            # A fence inside a thought hides nothing, and one that is never closed does not either.
            is_quoted = not depth and not is_quoted and fences > 0
            continue
        if is_quoted or (text[tag.start() - 1 : tag.start()] == "`" == text[tag.end() : tag.end() + 1]):
            continue
        before, position = text[position : tag.start()], tag.end()
        if not tag["slash"]:
            (thoughts if depth else answers).append(before)
            depth += 1
            continue
        after_closing = tag.end()
        if depth:
            thoughts.append(before)
            depth -= 1
        else:
            # All that comes before a closing tag without an opening one is thought.
            lacks_opening = True
            thoughts += [*answers, before]
            answers.clear()
    if depth and is_complete and position == after_closing:
        # A thought that names an opening tag has one more of them than of closing ones.
        depth = 0
    (thoughts if depth else answers).append(text[position:])
    if not thoughts and not depth:
        return Parts(text)
    answer = "\n".join(filter(None, map(str.strip, answers)))
    is_end = not depth and not any(map(str.strip, answers[:-1]))
    return Parts(
        answer,
        "\n".join(filter(None, map(str.strip, thoughts))),
        is_cut=depth > 0,
        lacks_opening=lacks_opening,
        start=_place(text, answers[-1]) if is_end else None,
    )


def _begins_line(text: str, position: int) -> bool:
    """Return True if only blanks are between the beginning of the line and a position."""
    while position and text[position - 1] in " \t":
        position -= 1
    return not position or text[position - 1] == "\n"


def _split_channels(text: str) -> Parts:
    thoughts: list[str] = []
    answers: list[str] = []
    end = 0
    for channel in _CHANNEL.finditer(text):
        ends = _CHANNEL_END.search(text, channel.end())
        end = ends.start() if ends else len(text)
        (answers if channel[1].lower() == "final" else thoughts).append(text[channel.end() : end].strip())
    if not end and not text.lstrip().startswith(_CHANNEL_TOKENS):
        # A text about the token, which opens no channel.
        return Parts(text)
    start = end - len(answers[-1]) if len(answers) == 1 and end == len(text) else None
    answer, thought = "\n".join(filter(None, answers)), "\n".join(filter(None, thoughts))
    return Parts(answer, thought, is_cut=not answers, start=start)


def _place(text: str, last: str) -> int:
    """Return where the last part of a text begins, without white space."""
    return len(text) - len(last.lstrip())


def is_mark(token: str) -> bool:
    """Return True if a token is a tag of thoughts, or part of the channels of gpt-oss."""
    tag = _TAGS.fullmatch(token)
    return (tag is not None and not tag["fence"]) or token in _CHANNEL_TOKENS


def opening_at_end(prompt: str) -> str:
    """Return the opening tag at the end of a prompt, which a chat template wrote there; empty if there is none."""
    last = prompt.rstrip()[-_LONGEST_TAG:]
    for tag in _TAGS.finditer(last):
        if not (tag["fence"] or tag["slash"]) and tag.end() == len(last):
            return tag[0]
    return ""


def answer_of(reply: Reply) -> tuple[Reply, Parts]:
    """Return a reply whose text is the answer and which has the thoughts in ``reasoning``, and how it was divided.

    Log probabilities are those of the tokens of the answer; None if they cannot be told from those of the thoughts.
    """
    parts = split_reasoning(reply.text, is_complete=reply.finish_reason != "length")
    if parts.text == reply.text:
        return reply, parts
    reasoning = "\n".join(filter(None, (reply.reasoning, parts.reasoning)))
    logprobs = None if reply.logprobs is None else _logprobs_from(reply.logprobs, reply.text, parts.start)
    return replace(reply, text=parts.text, reasoning=reasoning, logprobs=logprobs), parts


def is_cut(reply: Reply, parts: Parts) -> bool:
    """Return True if the limit of a request cut its reply before any answer."""
    return reply.finish_reason == "length" and (parts.is_cut or not parts.text.strip())


def _logprobs_from(
    entries: Sequence[Mapping[str, Any]], text: str, start: int | None
) -> tuple[Mapping[str, Any], ...] | None:
    if start is None or "".join(str(entry["token"]) for entry in entries).rstrip() != text.rstrip():
        return None
    position = 0
    for number, entry in enumerate(entries):
        token = str(entry["token"])
        position += len(token)
        # A token of white space before the answer ends after the thought, too.
        if position > start:
            return tuple(entries[number:])
    return None
