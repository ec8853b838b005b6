"""The prompts of the paper (section 3, appendices B, D and G) in the wording of its published code."""

from __future__ import annotations

from collections.abc import Sequence

Example = tuple[str, str]


def few_shot(examples: Sequence[Example], k: int) -> tuple[Example, ...]:
    """Return the first k / 2 examples of each label, alternating A, B (appendix G).

    :param examples: (text, label) pairs.
    :raises ValueError: if a label has fewer than k / 2 examples.
    """
    half = k // 2
    chosen = [[e for e in examples if e[1] == label][:half] for label in ("A", "B")]
    if min(map(len, chosen)) < half:
        raise ValueError(
            f"k = {k} needs {half} examples of each label, but there are {len(chosen[0])} A and {len(chosen[1])} B"
        )
    return tuple(example for pair in zip(*chosen, strict=True) for example in pair)


def classification(examples: Sequence[Example], text: str, *, cot: bool = False) -> str:
    """Return the A/B question after its examples. All items of a task share the text before ``text``."""
    lines = [f'Input: "{example}" Label: {label}' for example, label in examples]
    if cot:
        lines.append(f'\nNow, think out loud step by step and assign label. \nInput: "{text}" Label: \nA \nB')
    else:
        lines.append(f'\nInput: "{text}" Label: \nA \nB (Respond in one letter and nothing else)')
    return "\n".join(lines)


def geometry(question: str, options: Sequence[str]) -> str:
    """Return a Letter Geometry question (section 4), followed by one option per line."""
    return question + "\n" + "\n".join(options) + "(Respond in one letter and nothing else)"


def reader(reply: str) -> str:
    """Return the question to the second model about a chain of thought (appendix D)."""
    return (
        f"Assistant: {reply} \n\n What does the Assistant think the sentence belongs to?"
        "\nA\nB\nNone (Respond in one word and nothing else)"
    )
