"""Keys and values of a common prompt prefix for transformers models: computed once, used by every row."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from pytest_llmprops.models.sampling import common_prefix

#: the most prompt tokens of one forward call of the prefix
CHUNK = 1024


def shared_prefix(prompts: Sequence[list[int]]) -> int:
    """Number of leading tokens common to all prompts, at least one short of the shortest."""
    first = prompts[0]
    length = min(len(p) for p in prompts) - 1
    for prompt in prompts[1:]:
        length = min(length, common_prefix(first, prompt))
    return max(length, 0)


def group_by_prefix(prompts: Sequence[list[int]], most: int) -> list[range]:
    """Cut sorted prompts into neighbouring groups of at most ``most`` that are worth evaluating together.

    A group costs its common prefix once, and for every row the longest remainder. A prompt starts a new
    group when that is clearly cheaper: a prefix of another kind, or a much longer prompt.
    """
    groups: list[range] = []
    start, prefix, longest, cost = 0, 0, 0, 0
    for i, prompt in enumerate(prompts):
        rows = i - start
        alone = len(prompt)
        if rows:
            new_prefix = min(prefix, common_prefix(prompts[start], prompt))
            new_longest = max(longest, alone)
            together = new_prefix + (rows + 1) * (new_longest - new_prefix)
            if rows < most and together <= 1.25 * (cost + alone) + 32:
                prefix, longest, cost = new_prefix, new_longest, together
                continue
            groups.append(range(start, i))
        start, prefix, longest, cost = i, alone, alone, alone
    if prompts:
        groups.append(range(start, len(prompts)))
    return groups


class PrefixCache:
    """The keys and values of the last prefix that was evaluated, batch size 1.

    :param model: a transformers causal language model. Only layers with full attention can be shared and
        cut; with others (sliding windows, recurrent states) :attr:`works` is False.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._caches: Any = importlib.import_module("transformers.cache_utils")
        layers = self._caches.DynamicCache(config=model.config).layers
        self.works = bool(layers) and all(type(layer) is self._caches.DynamicLayer for layer in layers)
        self._tokens: list[int] = []
        self._layers: list[tuple[Any, Any]] = []

    def forget(self) -> None:
        """Drop what is held."""
        self._tokens, self._layers = [], []

    def rows(self, prefix: list[int], count: int, room: int) -> Any:
        """A cache for ``count`` rows that all begin with ``prefix``, with space for ``room`` more tokens."""
        if not self.works:
            return self._caches.DynamicCache(config=self._model.config)
        if prefix:
            self._evaluate(prefix)
        layers = []
        grown = _grown_layer(self._caches.DynamicLayer)
        for i in range(len(self._caches.DynamicCache(config=self._model.config).layers)):
            layers.append(grown(self._layers[i] if prefix else None, count, room))
        return self._caches.Cache(layers=layers)

    def _evaluate(self, prefix: list[int]) -> None:
        import torch

        held = common_prefix(self._tokens, prefix)
        kept = [(k[:, :, :held], v[:, :, :held]) for k, v in self._layers]
        if held < len(prefix):
            cache = self._caches.DynamicCache(config=self._model.config)
            for i, (keys, values) in enumerate(kept):
                if held:
                    cache.update(keys, values, i)
            for start in range(held, len(prefix), CHUNK):
                ids = torch.tensor([prefix[start : start + CHUNK]], device=self._model.device)
                positions = torch.arange(start, start + ids.shape[1], device=self._model.device)[None]
                self._model(
                    input_ids=ids,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
            kept = [(layer.keys, layer.values) for layer in cache.layers]
        self._tokens, self._layers = list(prefix), kept


_grown: dict[type, type] = {}


def _grown_layer(base: Any) -> Any:
    """A cache layer that writes into one buffer; the library's own copies all of it for every new token."""
    if base in _grown:
        return _grown[base]

    class GrownLayer(base):  # type: ignore[misc]  # the base class is known at run time only
        def __init__(self, prefix: tuple[Any, Any] | None, rows: int, room: int) -> None:
            super().__init__()
            self._rows, self._room, self._length = rows, room, 0
            self._buffers: list[Any] = []
            if prefix is not None:
                self.lazy_initialization(*prefix)
                self._write(*(t.expand(rows, -1, -1, -1) for t in prefix))

        def _write(self, keys: Any, values: Any) -> None:
            new = keys.shape[-2]
            end = self._length + new
            if not self._buffers or end > self._buffers[0].shape[-2]:
                old, size = self._buffers, end + self._room
                self._buffers = [
                    t.new_empty((t.shape[0], t.shape[1], size, t.shape[3])) for t in (keys, values)
                ]
                for buffer, before in zip(self._buffers, old, strict=False):
                    buffer[:, :, : self._length] = before[:, :, : self._length]
            for buffer, part in zip(self._buffers, (keys, values), strict=True):
                buffer[:, :, self._length : end] = part
            self._length = end
            self.keys, self.values = (b[:, :, :end] for b in self._buffers)

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self._write(key_states, value_states)
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            self._buffers = [b[indices] for b in self._buffers]
            self.keys, self.values = (b[:, :, : self._length] for b in self._buffers)

    _grown[base] = GrownLayer
    return GrownLayer
