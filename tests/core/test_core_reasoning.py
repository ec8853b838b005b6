"""What a model thinks is split from what it answers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.core.reasoning import answer_of, is_cut, is_mark, opening_at_end, split_reasoning
from pytest_llmprops.core.requests import Reply

HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}"
#: name -> how models of this kind write (thought, answer)
FORMS = {
    "think": "<think>\n{}\n</think>\n\n{}",
    "thinking": "<thinking>{}</thinking>{}",
    "thought": "<thought>{}</thought> {}",
    "reasoning": "<Reasoning>{}</Reasoning>\n{}",
    "magistral": "[THINK]{}[/THINK]{}",
    "kimi": "◁think▷{}◁/think▷{}",
    "gpt-oss": HARMONY,
    "gpt-oss, ended": HARMONY + "<|return|>",
    "gpt-oss, with a tool's channel": "<|channel|>commentary<|message|>x<|end|>" + HARMONY,
    "gpt-oss, without special tokens": "analysis{}assistantfinal{}",
    "no opening tag": "{}\n</think>\n\n{}",
    "code in the thought": "<think>{}\n```python\nx = 1\n```\n</think>{}",
    "half a fence in the thought": "{}\n```\nx</think>\n{}",
    "names the tag": "<think>{} I must not write <think> again.</think>\n{}",
    "nested": "<think>{}<think>b</think>c</think>{}",
    "several": "<think>{}</think><think>once more</think>{}",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_thoughts_are_not_the_answer(form: str) -> None:
    """A thought that names the other answer is not read, and an empty or a cut one leaves no other answer."""
    parts = split_reasoning(form.format("So the label is A.", "Label: B"))
    assert (parts.text, parts.is_cut) == ("Label: B", False)
    assert "the label is A" in parts.reasoning
    if not form.startswith("analysis"):
        # Qwen3 writes an empty thought if thinking is off.
        assert split_reasoning(form.format("", "B")).text == "B"
    if form.startswith("{}"):
        return
    text = form.partition("{}")[0] + "Okay, let us see. A has"
    reply = Reply(text, finish_reason="length")
    answer, parts = answer_of(reply)
    assert (answer.text, is_cut(reply, parts)) == ("", True)


def test_other_texts_stay() -> None:
    """Quoted tags, and words that only look like tags, belong to the answer."""
    for text in (
        "B",
        "I think> so",
        "The tag `<think>` opens a thought and `</think>` ends it. B",
        "```\n<think>A</think>\n```\nB",
        "~~~xml\n</think>\n~~~\nB",
        "analysis: the label is A, not B",
        "(A) reasoning > (B)",
        "The token <|channel|> names a channel, so B",
    ):
        assert split_reasoning(text).text == text


def test_several_thoughts() -> None:
    """Text between thoughts is answer, thoughts of field and text are joined, a missing opening tag is noted."""
    parts = split_reasoning("<think>a</think>X<think>b</think>Y")
    assert (parts.text, parts.reasoning, parts.lacks_opening) == ("X\nY", "a\nb", False)
    assert split_reasoning("a</think>B").lacks_opening
    reply, _ = answer_of(Reply("<think>b</think>B", reasoning="a"))
    assert (reply.text, reply.reasoning) == ("B", "a\nb")


def entries(*tokens: str) -> tuple[dict[str, object], ...]:
    return tuple({"token": token, "logprob": -1.0, "top": []} for token in tokens)


def test_log_probabilities_begin_at_the_answer() -> None:
    """ERAS reads the first token of the answer, not of the thought."""
    tokens = entries("<think>", "A", "</think>", "\n\n", "B", "!")
    reply, _ = answer_of(Reply("".join(str(e["token"]) for e in tokens), logprobs=tokens))
    assert reply.logprobs == entries("B", "!")
    reply, _ = answer_of(Reply("<think>A</think>B", logprobs=entries("other", "tokens")))
    assert reply.logprobs is None


def test_opening_tag_at_the_end_of_a_prompt() -> None:
    """Only an opening tag at the very end is one; some special tokens are marks of a thought."""
    prompts = ("<|Assistant|><think>\n", "user: <think> is a tag", "[THINK]", "<think></think>")
    assert [opening_at_end(prompt) for prompt in prompts] == ["<think>", "", "[THINK]", ""]
    assert [is_mark(token) for token in ("[THINK]", "<|channel|>", "<|im_end|>")] == [True, True, False]


@given(st.text(alphabet="ab`\n ~<>/", max_size=60), st.text(alphabet="ab \n", max_size=30))
def test_any_thought_before_a_plain_answer(thought: str, answer: str) -> None:
    """Whatever is thought, a plain answer after the closing tag is read whole."""
    text = f"<think>{thought}</think>{answer}"
    assert split_reasoning(text).text in (answer.strip(), text if "`" in thought or "~" in thought else None)


def test_time_is_linear() -> None:
    """A reply of 400 kB of tags takes no longer than a tenth of a second."""
    for part in ("<think>", "</think>", "<think>a</think>", "```\n", "<|channel|>", "`<think>`", "<"):
        text = part * (400_000 // len(part))
        start = time.process_time()
        split_reasoning(text)
        assert time.process_time() - start < 1.0
