"""``llmprops eras train wwm``: continued pre-training with whole-word masking, or without it on the same corpus."""

from __future__ import annotations

import hashlib
import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words, check_characters, parts
from pytest_llmprops.benchmarks.eras.tools.training.encoder import Encoder
from pytest_llmprops.core.errors import BackendError, DataError, UsageError
from pytest_llmprops.core.requests import Segment
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.training.run import run_training
from pytest_llmprops.training.task import (
    IGNORED,
    CardFacts,
    DataFile,
    Row,
    Settings,
    require_packages,
    token_tensors,
)

#: Of the chosen tokens, this share becomes the mask token, and this share a random token; the others stay.
_MASKED, _RANDOM = 0.8, 0.1


class MaskedRow(NamedTuple):
    """The tokens of a row after masking, and the original token at each chosen place (elsewhere :data:`IGNORED`)."""

    ids: list[int]
    labels: list[int]


class Masking:
    """How tokens are chosen.

    :param whole_words: all tokens of a word are chosen together; otherwise each token alone.
    :param rate: share of a row's tokens that is chosen, at least one word or token.
    :param mask: the id of the mask token. :param vocabulary: number of tokens, for random ones.
    """

    def __init__(self, *, whole_words: bool, rate: float, mask: int, vocabulary: int) -> None:
        self.whole_words, self._rate = whole_words, rate
        self._mask, self._vocabulary = mask, vocabulary

    def masked(self, row: Row, choice: random.Random) -> MaskedRow:
        """Return a row with masked tokens.

        :param row: its labels are the numbers of the tokens' words, :data:`IGNORED` for special tokens.
        """
        ids, labels = list(row.ids), [IGNORED] * len(row.ids)
        for place in self._chosen(row.labels, choice):
            labels[place] = ids[place]
            drawn = choice.random()
            if drawn < _MASKED:
                ids[place] = self._mask
            elif drawn < _MASKED + _RANDOM:
                ids[place] = choice.randrange(self._vocabulary)
        return MaskedRow(ids, labels)

    def _chosen(self, words: Sequence[int], choice: random.Random) -> Iterator[int]:
        groups: dict[int, list[int]] = {}
        for place, word in enumerate(words):
            if word != IGNORED:
                groups.setdefault(word if self.whole_words else place, []).append(place)
        wanted = max(1, round(self._rate * sum(map(len, groups.values()))))
        order = list(groups.values())
        choice.shuffle(order)
        count = 0
        for places in order:
            # A word that would exceed the share is left out, as in the code of BERT, except the first one.
            if count and count + len(places) > wanted:
                continue
            count += len(places)
            yield from places
            if count >= wanted:
                return


#: rows per batch of an evaluation
_BATCH = 32


class WwmTask:
    """Training of a masked language model on segmented text.

    The masks of a batch depend on the seed and on the rows in the batch, so a resumed training has the same ones, and
    the masks of a row differ between epochs.

    :param lines: the words of the lines to train on; each fits into the window.
    :param held_out: lines that choose the best checkpoint, with masks that never change.
    :param whole_words: see :class:`Masking`.
    """

    metric = "accuracy"

    def __init__(
        self,
        encoder: Encoder,
        lines: Sequence[Words],
        held_out: Sequence[Words],
        *,
        whole_words: bool,
        rate: float,
        seed: int,
    ) -> None:
        tokenizer = encoder.tokenizer
        if tokenizer.mask_token_id is None:
            raise UsageError(
                f"--base {encoder.name}: its tokenizer has no mask token; give a masked language model"
            )
        self._encoder, self._seed = encoder, seed
        self._maskings = {
            name: Masking(
                whole_words=name == "words",
                rate=rate,
                mask=int(tokenizer.mask_token_id),
                vocabulary=len(tokenizer),
            )
            for name in ("words", "characters")
        }
        self._masking = self._maskings["words" if whole_words else "characters"]
        self.rows: Sequence[Row] = self._rows(lines)
        self._held_out = self._rows(held_out)

    def _rows(self, lines: Sequence[Words]) -> list[Row]:
        tokens: dict[str, list[int]] = {}
        tokenizer, rows = self._encoder.tokenizer, []
        before, after = _specials(tokenizer)
        for line in lines:
            ids: list[int] = []
            words: list[int] = []
            for number, word in enumerate(line):
                if word not in tokens:
                    tokens[word] = [int(i) for i in tokenizer(word, add_special_tokens=False)["input_ids"]]
                ids += tokens[word]
                words += [number] * len(tokens[word])
            room = self._encoder.window - len(before) - len(after)
            if ids:
                edges = [IGNORED] * len(before), [IGNORED] * len(after)
                rows.append(Row([*before, *ids[:room], *after], [*edges[0], *words[:room], *edges[1]]))
        return rows

    def network(self) -> Any:
        return self._encoder.load("AutoModelForMaskedLM")

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        content = hashlib.sha256(repr([list(row.ids) for row in rows]).encode()).hexdigest()
        return self._masked(rows, self._masking, random.Random(f"{self._seed} {content}"))

    def _masked(self, rows: Sequence[Row], masking: Masking, choice: random.Random) -> Mapping[str, Any]:
        masked = [Row(*masking.masked(row, choice)) for row in rows]
        return token_tensors(masked, pad=self._encoder.tokenizer.pad_token_id or 0)

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return the share of masked tokens that are restored, with the masking of the training and with each one."""
        shares = {name: self._restored(network, masking) for name, masking in self._maskings.items()}
        own = "words" if self._masking.whole_words else "characters"
        return {"accuracy": shares[own], **{f"accuracy_{name}": share for name, share in shares.items()}}

    def _restored(self, network: Any, masking: Masking) -> float:
        torch: Any = importlib.import_module("torch")
        choice = random.Random("held out")
        right = total = 0
        with torch.inference_mode():
            for start in range(0, len(self._held_out), _BATCH):
                batch = self._masked(self._held_out[start : start + _BATCH], masking, choice)
                batch = {name: tensor.to(network.device) for name, tensor in batch.items()}
                labels = batch.pop("labels")
                best = network(**batch).logits.argmax(-1)
                right += int(((best == labels) & (labels != IGNORED)).sum())
                total += int((labels != IGNORED).sum())
        return right / total if total else 0.0

    def save(self, network: Any, folder: Path) -> None:
        """Write the masked language model, for ``--base`` of another training."""
        network.save_pretrained(folder)
        self._encoder.tokenizer.save_pretrained(folder)


def _specials(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text."""
    mask = int(tokenizer.mask_token_id)
    full = [int(i) for i in tokenizer(tokenizer.mask_token)["input_ids"]]
    place = full.index(mask)
    return full[:place], full[place + 1 :]


#: maximum number of held-out lines
_MOST_HELD_OUT = 1000
_SEGMENTED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class WwmOptions:
    """What is trained, and on which data.

    :param corpus: plain text, one sentence or paragraph per line.
    :param segmenter: a specification: ``jieba``, ``pkuseg`` or ``hf:FOLDER``.
    :param base: a folder or repository of a masked language model.
    :param whole_words: mask all tokens of a word together; otherwise each token alone.
    :param rate: share of the tokens that is masked.
    :param held_out: share of the lines that choose the best checkpoint.
    :param window: maximum number of tokens of a row; longer lines are divided after punctuation.
    """

    corpus: Path
    segmenter: str
    base: str
    whole_words: bool = True
    rate: float = 0.15
    held_out: float = 0.01
    window: int = 256


def train_wwm(
    options: WwmOptions,
    settings: Settings,
    out: Path,
    *,
    plan: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Continue the pre-training of a masked language model into the folder ``out``, or continue there.

    :param plan: print the steps, memory and time, and train nothing.
    :raises DataError: if the corpus cannot be used. :raises UsageError: if an option cannot be used.
    """
    require_packages("llmprops eras train")
    for name, value in (("--rate", options.rate), ("--held-out", options.held_out)):
        if not 0 < value < 1:
            raise UsageError(f"{name} must be between 0 and 1, not {value}")
    encoder = Encoder(options.base, window=options.window)
    texts, digest = _read(options.corpus, encoder.window - 2)
    characters = CharacterTokens(encoder.tokenizer, name="--base")
    check_characters(str(options.corpus), texts, characters, f"--base {options.base}", unit="part")
    lines = segmented_lines(options.segmenter, texts)
    random.Random(f"held out text {settings.seed}").shuffle(lines)
    held = min(_MOST_HELD_OUT, max(1, round(options.held_out * len(lines))))
    task = WwmTask(
        encoder, lines[held:], lines[:held],
        whole_words=options.whole_words, rate=options.rate, seed=settings.seed,
    )  # fmt: skip
    facts = _facts(options, encoder, DataFile("training", options.corpus.name, digest, len(texts)), held, out)
    run_training(task, settings, out, facts, score=lambda folder: [], plan=plan, say=say)


def _read(file: Path, longest: int) -> tuple[list[str], str]:
    """Return the lines of a corpus, divided to at most ``longest`` characters, and the sha256 of the file."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"--corpus {file}: cannot be read: {error.strerror or error}") from None
    lines = ["".join(line.split()) for line in utf8(raw, str(file)).split("\n")]
    texts = [part for line in lines for part in parts(line, longest)]
    if len(texts) < 2:
        raise DataError(f"--corpus {file}: {len(texts)} lines of text; it must have one sentence per line")
    return texts, hashlib.sha256(raw).hexdigest()


def segmented_lines(spec: str, texts: Sequence[str]) -> list[Words]:
    """Return the words of texts from a segmenter.

    :param spec: a model specification. :raises UsageError: if it is not a segmenter, or fails on a text.
    """
    parsed = parse_spec(spec)
    backend = find_backend(parsed.backend)
    model = backend.factory(parsed, CallOptions())
    segment = getattr(model, "segment", None)
    if segment is None:
        raise UsageError(f"--segmenter {spec}: is not a segmenter; give jieba, pkuseg or hf:FOLDER")
    lines: list[Words] = []
    for start in range(0, len(texts), _SEGMENTED_AT_ONCE):
        for reply in segment([Segment(text) for text in texts[start : start + _SEGMENTED_AT_ONCE]]):
            if isinstance(reply, BackendError):
                raise UsageError(f"--segmenter {spec}: {reply}")
            lines.append(reply.value)
    return lines


def _facts(options: WwmOptions, encoder: Encoder, file: DataFile, held: int, out: Path) -> CardFacts:
    masked = "whole words" if options.whole_words else "single tokens"
    return CardFacts(
        benchmark="eras",
        language="zh",
        title=f"Masked language model trained on {file.name}, masking {masked}",
        base=options.base,
        use=[f"llmprops eras train sentiment --data reviews --base {out} --out DIR"],
        files=[file],
        lines=file.lines - held,
        assumed=[
            f"{options.rate:.0%} of the tokens are masked: 80% become the mask, 10% a random token, 10% stay",
            "no next-sentence prediction; the pooled output of the base is not kept",
            "optimizer (AdamW), learning rate, batch, epochs, warm-up, weight decay, clipping: see Settings",
        ],
        notes=[f"{held:,} lines are held out, chosen with the seed"],
        options={
            "segmenter": options.segmenter,
            "masking": masked,
            "rate": options.rate,
            "window": encoder.window,
            "held_out": options.held_out,
        },
    )
