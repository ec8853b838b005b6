"""Use a model from the registry as a parser of one language, outside of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
    from pytest_llmprops.models.base import Model

#: What to use if the parser does not support a language.
_OTHERS = {"dependency": "spacy:MODEL", "words": "words (written forms, no lemmas)"}


class ModelParser:
    """A model of kind ``parse`` as a parser of one language.

    :param option: The command-line option, for messages.
    :raises UsageError: The model does not exist, or it is not a parser.
    """

    def __init__(self, option: str, spec: str, language: str, analysis: str) -> None:
        from pytest_llmprops.core.errors import UsageError

        try:
            self.model = model_of(option, spec)
        except UsageError as error:
            raise UsageError(f"{error}; or use {option} {_OTHERS[analysis]}") from None
        if not hasattr(self.model, "parse"):
            self.model.close()
            raise UsageError(f"{option} {spec}: not a parser; use stanza, spacy:MODEL or words")
        self._option, self._spec, self._language, self._analysis = option, spec, language, analysis
        self.identity: Mapping[str, Any] = {
            **self.model.identity,
            "language": language,
            "analysis": analysis,
        }
        self.failed = 0

    def parse(self, texts: Sequence[str]) -> list[list[Word]]:
        """Return the words of each text. If the model fails for a text, it has no words and counts in ``failed``.

        :raises UsageError: The model cannot be used, or does not support the language or the analysis.
        """
        from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
        from pytest_llmprops.core.errors import BackendError, UsageError

        parsed: list[list[Word]] = []
        for reply in self._replies(texts):
            if isinstance(reply, BackendError):
                if reply.fatal:
                    raise UsageError(f"{self._option} {self._spec}: {reply}")
                self.failed += 1
                parsed.append([])
            elif reply.value["words"] is None:
                what = f"{self._option} {self._spec}: {reply.value['missing']}"
                raise UsageError(f"{what}; or use {self._option} {_OTHERS[self._analysis]}")
            else:
                parsed.append([Word(*word) for word in reply.value["words"]])
        return parsed

    def _replies(self, texts: Sequence[str]) -> list[Any]:
        import asyncio
        from collections.abc import Awaitable

        from pytest_llmprops.core.requests import Parse
        from pytest_llmprops.models.base import Result, Results, serve

        async def wait(results: Awaitable[Sequence[Result]]) -> Sequence[Result]:
            return await results

        replies: list[Any] = []
        size = max(1, self.model.max_batch)
        for start in range(0, len(texts), size):
            batch = [Parse(text, self._language, self._analysis) for text in texts[start : start + size]]
            results: Results = serve(self.model, batch)
            replies += asyncio.run(wait(results)) if isinstance(results, Awaitable) else results
        return replies


def model_of(option: str, spec_text: str) -> Model:
    """Return the model for an option's spec. :raises UsageError: The model does not exist; names the option."""
    from pytest_llmprops.core.errors import UsageError
    from pytest_llmprops.models.base import BackendOptions
    from pytest_llmprops.models.registry import find_backend, parse_spec

    try:
        spec = parse_spec(spec_text)
        return find_backend(spec.backend).factory(spec, BackendOptions())
    except UsageError as error:
        # The registry's messages name --model.
        raise UsageError(str(error).replace(f"--model {spec_text}", f"{option} {spec_text}", 1)) from None
