"""The cached keys and values of a common prompt prefix, for transformers models: computed once per batch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from pytest_llmprops.models.sampling import common_prefix

#: maximum tokens of the prefix per forward call
CHUNK = 1024


def shared_prefix(prompts: Sequence[list[int]]) -> int:
    """Return the number of leading tokens that all prompts share; at least one token of each prompt remains."""
    first = prompts[0]
    length = min(len(p) for p in prompts) - 1
    for prompt in prompts[1:]:
        length = min(length, common_prefix(first, prompt))
    return max(length, 0)


def group_by_prefix(prompts: Sequence[list[int]], max_size: int) -> list[range]:
    """Split sorted prompts into groups of neighbours, at most ``max_size`` each, to be evaluated together.

    A group costs its common prefix once, and the longest remainder for every row. A prompt starts a new group if that
    is clearly cheaper, for example because it has a different prefix or is much longer.
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
            if rows < max_size and together <= 1.25 * (cost + alone) + 32:
                prefix, longest, cost = new_prefix, new_longest, together
                continue
            groups.append(range(start, i))
        start, prefix, longest, cost = i, alone, alone, alone
    if prompts:
        groups.append(range(start, len(prompts)))
    return groups


class PrefixCache:
    """The keys and values of the last evaluated prefix, with batch size 1.

    :param model: a transformers causal language model. Only layers with full attention can be shared and shortened;
        if the model has others (sliding windows, recurrent states), :attr:`works` is False.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._caches: Any = importlib.import_module("transformers.cache_utils")
        layers = self._caches.DynamicCache(config=model.config).layers
        self.works = bool(layers) and all(type(layer) is self._caches.DynamicLayer for layer in layers)
        self._tokens: list[int] = []
        self._layers: list[tuple[Any, Any]] = []

    def forget(self) -> None:
        """Drop the cached prefix."""
        self._tokens, self._layers = [], []

    def rows(self, prefix: list[int], count: int, room: int) -> Any:
        """Return a cache for ``count`` rows that all begin with ``prefix``, with room for ``room`` more tokens."""
        if not self.works:
            return self._caches.DynamicCache(config=self._model.config)
        if prefix:
            self._evaluate(prefix)
        layers = []
        layer_class = _buffered_layer(self._caches.DynamicLayer)
        for i in range(len(self._caches.DynamicCache(config=self._model.config).layers)):
            layers.append(layer_class(self._layers[i] if prefix else None, count, room))
        return self._caches.Cache(layers=layers)

    def _evaluate(self, prefix: list[int]) -> None:
        import torch

        cached = common_prefix(self._tokens, prefix)
        layers = [(k[:, :, :cached], v[:, :, :cached]) for k, v in self._layers]
        if cached < len(prefix):
            cache = self._caches.DynamicCache(config=self._model.config)
            for i, (keys, values) in enumerate(layers):
                if cached:
                    cache.update(keys, values, i)
            for start in range(cached, len(prefix), CHUNK):
                ids = torch.tensor([prefix[start : start + CHUNK]], device=self._model.device)
                positions = torch.arange(start, start + ids.shape[1], device=self._model.device)[None]
                self._model(
                    input_ids=ids,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
            layers = [(layer.keys, layer.values) for layer in cache.layers]
        self._tokens, self._layers = list(prefix), layers


_buffered: dict[type, type] = {}


def _buffered_layer(base: Any) -> Any:
    """Return a class of cache layers that write into one buffer; the library's copy everything for each new token."""
    if base in _buffered:
        return _buffered[base]

    class BufferedLayer(base):  # type: ignore[misc]  # the base class is known at run time only
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

    _buffered[base] = BufferedLayer
    return BufferedLayer
