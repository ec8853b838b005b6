"""The command that measures single items of a recorded run again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from pytest_llmprops.reports.kit.series import Series
from pytest_llmprops.reports.kit.text import visible

#: options with a value that must not be repeated: what selects models and cases, writes files or decides
_DROPPED = {
    "--model", "--llm-model", "-k", "-m", "-n", "--numprocesses", "--dist", "--llm-run", "--llm-gate", "--llm-baseline",
    "--llm-engine", "--llm-batch-wait", "--llm-shard", "--llm-cache", "--alluredir", "--junitxml", "--junit-xml",
}  # fmt: skip
#: options without a value that must not be repeated
_FLAGS = {"--llm-resume", "--llm-plan", "--lf", "--last-failed", "--ff", "--collect-only", "--co"}


def command_again(series: Series) -> str:
    """Return the run's pytest command for this model alone, with new replies, to which ``-k ITEM`` is added.

    Empty if the run has no command, for example because it was imported.
    """
    command = series.run.facts.options.get("command")
    model = series.run.facts.models.get(series.model)
    if not isinstance(command, list) or model is None or not model.spec:
        return ""
    kept = list(_kept([str(argument) for argument in command]))
    return visible(shlex.join(["pytest", *kept, "--model", model.spec, "--llm-cache", "refresh"]))


def _kept(arguments: Sequence[str]) -> Iterator[str]:
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name in _DROPPED:
            if not equals:
                next(rest, None)
        elif argument not in _FLAGS and not _is_joined(argument):
            yield argument


def _is_joined(argument: str) -> bool:
    """Return whether the argument is a short option with its value: ``-n8``."""
    return argument[:2] in ("-k", "-m", "-n") and len(argument) > 2 and not argument.startswith("--")
