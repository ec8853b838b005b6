"""What the APIs of models forced on their requests, in words, and what of it tells two runs apart."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_llmprops.records.run import RunMetadata

#: what a recorded deviation begins with, or ends with, and the words for it
_BEGINNINGS = {
    "temperature left out": "takes no temperature: sampled at its default",
    "temperature from ": "takes only a temperature from ",
    "token budget raised by ": "thinks before it answers: token limits raised by ",
}
_LEFT_OUT = " left out"
#: both names limit the same number of tokens
_SAME = ("max_tokens sent as", "max_completion_tokens sent as")
_HELPER = "helper:"
#: key of ``options`` of an imported run: what its file does not say
UNSAID = "unsaid"


def in_words(label: str, deviation: str) -> str:
    """Return a deviation of a model as a sentence.

    :param label: as in ``deviations`` of ``run.json``: the model's, or ``helper:ROLE``.
    """
    who = f"the helper {label.removeprefix(_HELPER)}" if label.startswith(_HELPER) else label
    for beginning, words in _BEGINNINGS.items():
        if deviation.startswith(beginning):
            return f"{who} {words}{deviation.removeprefix(beginning)}"
    if deviation.endswith(_LEFT_OUT):
        return f"{who} takes no {deviation.removesuffix(_LEFT_OUT)}: left out"
    return f"{who}: {deviation}"


def deviations_of(facts: RunMetadata) -> dict[tuple[str, str], str]:
    """Return the deviations that may change replies: (helper or empty, deviation) -> the sentence.

    That an imported run does not say how it was measured is one, with the key ``(UNSAID, …)``.
    """
    listed = facts.options.get(UNSAID)
    unsaid = ", ".join(map(str, listed)) if isinstance(listed, list | tuple) else ""
    sentence = f"{', '.join(facts.models)}: imported from a file that does not say, so not compared: {unsaid}"
    return ({(UNSAID, unsaid): sentence} if unsaid else {}) | {
        (label if label.startswith(_HELPER) else "", text): in_words(label, text)
        for label, texts in facts.deviations.items()
        for text in texts
        if not text.startswith(_SAME)
    }


def caveats(runs: Iterable[RunMetadata]) -> list[str]:
    """Return the deviations that not all of the runs have, or those of the only run, one sentence each.

    What imported runs do not say is never left out: they may differ in it.

    An API that takes no temperature is not the user's mistake, so runs that differ only in this are comparable.
    """
    found = [deviations_of(facts) for facts in runs]
    shared = set.intersection(*map(set, found)) if len(found) > 1 else set()
    return [
        sentence for own in found for key, sentence in own.items() if key not in shared or key[0] == UNSAID
    ]
