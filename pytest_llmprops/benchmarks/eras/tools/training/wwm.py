"""The task of continued pre-training with whole-word masking, or without it on the same corpus."""

from __future__ import annotations

import hashlib
import importlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.eras.tools.training.base import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words
from pytest_llmprops.benchmarks.eras.tools.training.masking import Masking
from pytest_llmprops.benchmarks.eras.tools.training.rows import IGNORED, Row
from pytest_llmprops.benchmarks.eras.tools.training.task import token_tensors
from pytest_llmprops.core.errors import UsageError

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
        """Return the base as a masked language model."""
        return self._encoder.load("AutoModelForMaskedLM")

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        """Return the tensors of some rows, masked."""
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
