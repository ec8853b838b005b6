"""A made-up parallel corpus with planted concepts, and a parser that reads its words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.concepts import Word
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.core.seeds import generator
from pytest_llmprops.models.base import BackendOptions, Model
from pytest_llmprops.models.spec import ModelSpec

#: source word -> its translations, equally frequent
PLANTED = {
    "bankword": ("oever", "bank"),
    "dateword": ("kors", "rotab", "karak"),
    "knowword": ("weet", "ken"),
    "bigword": ("groot", "grootste"),
}
#: the first is too rare in its second translation, the second too uneven in its two
NEAR_MISSES = {"rareword": ("seld", "raar"), "evenword": ("effe", "gelyk")}
TAGS = {"bankword": "NOUN", "dateword": "NOUN", "knowword": "VERB", "bigword": "ADJ"}
_VOCABULARY = 600


def pairs(number: int, *, seed: int = 5) -> Iterator[tuple[str, str]]:
    """Sentences of 6 to 12 words; every word has one translation but those above. Some neighbours change places."""
    random = generator("planted corpus", seed)
    ambiguous = [*PLANTED, *NEAR_MISSES]
    turn = dict.fromkeys(ambiguous, 0)
    for _ in range(number):
        source, target = [], []
        for place in range(random.randint(6, 12)):
            if place == 2 and random.random() < 0.4:
                word = random.choice(ambiguous)
                turn[word] += 1
                source.append(word)
                target.append(_translation(word, turn[word]))
            else:
                # Few frequent words and many rare ones.
                rank = int(_VOCABULARY * random.random() ** 2)
                source.append(f"src{rank}")
                target.append(f"tgt{rank}")
        swap = random.randrange(len(target) - 1)
        target[swap], target[swap + 1] = target[swap + 1], target[swap]
        yield " ".join(source), " ".join(target)


def _translation(word: str, turn: int) -> str:
    if word in PLANTED:
        return PLANTED[word][turn % len(PLANTED[word])]
    first, second = NEAR_MISSES[word]
    if word == "rareword":
        return second if turn <= 40 else first
    return second if turn % 12 == 0 else first


def write(folder: Path, lines: Sequence[tuple[str, str]] | Iterator[tuple[str, str]]) -> tuple[Path, Path]:
    """``corpus.en`` and ``corpus.xx``."""
    files = folder / "corpus.en", folder / "corpus.xx"
    with files[0].open("w", encoding="utf-8") as source, files[1].open("w", encoding="utf-8") as target:
        for first, second in lines:
            source.write(first + "\n")
            target.write(second + "\n")
    return files


class Tagger:
    """A parser of made-up sentences: words at spaces, lemmas and tags from tables, nouns by default.

    Words with ``+`` are a verb and its particle. ``calls`` counts the texts that it was asked about.
    """

    def __init__(
        self,
        tags: Mapping[str, str] | None = None,
        lemmas: Mapping[str, str] | None = None,
        *,
        bare: bool = False,
    ) -> None:
        self.tags, self.lemmas, self.bare = dict(tags or TAGS), dict(lemmas or {}), bare
        self.identity: Mapping[str, Any] = {"tagger": "planted", "lemmas": self.lemmas, "bare": bare}
        self.calls = 0

    def parse(self, texts: Sequence[str]) -> list[list[Word]]:
        self.calls += len(texts)
        return [self.words(text) for text in texts]

    def words(self, text: str) -> list[Word]:
        if self.bare:
            return [Word(word) for word in text.split()]
        found: list[Word] = []
        for word in text.split():
            lemma, tag = self.lemmas.get(word.lower(), word.lower()), self.tags.get(word.lower(), "NOUN")
            if word.startswith("+"):
                found.append(Word(word[1:], word[1:], "ADP", len(found), "compound:prt"))
            else:
                found.append(Word(word, lemma, tag, 0, "root"))
        return found


class TaggerModel:
    """:class:`Tagger` as a model of kind parse."""

    pinned, max_batch, blocking, in_worker = True, 100, True, False

    def __init__(self) -> None:
        self._tagger = Tagger()
        self.identity = self._tagger.identity

    def parse(self, requests: Sequence[Parse]) -> list[Reply]:
        words = ([list(word) for word in self._tagger.words(request.text)] for request in requests)
        return [Reply(value={"words": found, "by": "planted"}) for found in words]

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Nothing is held."""


def factory(spec: ModelSpec, options: BackendOptions) -> Model:
    """For ``register_model``."""
    return TaggerModel()


def main(arguments: Sequence[str]) -> int:
    """``llmprops`` with the tagger registered, and its peak memory in MiB on the last line."""
    from pytest_llmprops.cli.main import main as llmprops
    from pytest_llmprops.models.registry import register_model

    register_model("planted", factory, kinds=("parse",))
    status = llmprops(arguments)
    print(peak_memory())
    return status


def peak_memory() -> int:
    """MiB of resident memory at most, of this process since it began."""
    status = Path("/proc/self/status")
    if status.is_file():
        # getrusage() would count what the parent had when it forked.
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) >> 10
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> (20 if sys.platform == "darwin" else 10)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
