"""Properties of answers about pairs of sentences, for the search in ``pair_search``.

=================  ==================================================================================================
``no``             If the model says that two sentences are not equivalent, it does not call one paraphrase of one of
                   them equivalent to both (*triangular evidence*, as in ``trust``). The second sentence may also be a
                   minimal edit of the first, which is known to say something else.
``yes``            If the model says that two sentences are equivalent, it still does after neutral edits
                   (``neutral_edits``).
``symmetry``       The answer about two sentences is the same in the other order.
``transitivity``   If a and b, and b and c, are equivalent, then so are a and c.
=================  ==================================================================================================

Except for ``yes``, these contradictions need no knowledge of what the sentences mean, so parts of the sentences may be
left out (``reduction``). A paraphrase is a neutral edit or the model's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz.distance import Levenshtein

from pytest_llmprops.benchmarks.oracle.choices import SYMMETRY, TRANSITIVITY
from pytest_llmprops.benchmarks.oracle.items import NO, YES
from pytest_llmprops.benchmarks.oracle.minimal_edits import KINDS, minimal_edits
from pytest_llmprops.benchmarks.oracle.neutral_edits import EDITS, edited, neutral_edits
from pytest_llmprops.benchmarks.oracle.pair_search import Claim, Contradiction, PairSearch, same_words
from pytest_llmprops.benchmarks.oracle.reduction import Reducible


@dataclass(frozen=True, slots=True)
class _Made:
    """A sentence made from another one, how in words, and the name of the edit, if it is one."""

    text: str
    how: str
    edits: tuple[str, ...] = ()


class _Paraphrasing(PairSearch):
    """A search with paraphrases. Two numbers of a point select one.

    The first is 0 for a neutral edit, otherwise one of the model's own. The second is the edit, of those that fit one
    of the two sentences.
    """

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the neutral edits."""
        fitting = {*neutral_edits(self.first.text), *neutral_edits(self.second.text)}
        return tuple(name for name in EDITS if name in fitting)

    @property
    def edit_choices(self) -> int:
        """The number of choices for a neutral edit."""
        return max(len(self.names), 1)

    async def made(self, text: str, choice: int, edit: int, of: str) -> _Made | None:
        """Return a paraphrase of ``text``; None if there is none for these numbers.

        :param of: what ``text`` is called in the description.
        """
        if choice:
            own = await self.paraphrase(text, choice - 1)
            return None if own is None else _Made(own, f"its paraphrase of {of}")
        name = self.names[edit] if self.names else ""
        new = EDITS[name](text) if name else None
        return None if new is None else _Made(new, f"{of}, edited: {name}", (name,))


def _changed(sentence: Reducible, kind: str) -> str | None:
    """Return a minimal edit of a sentence."""
    return minimal_edits(sentence.parsed).get(kind) if sentence.parsed else None


class NoSearch(_Paraphrasing):
    """A point: parts; source of the paraphrase; second sentence or minimal edit, kind of edit; paraphrase.

    A minimal edit is one of the source, which is then the first sentence.
    """

    @property
    def size(self) -> tuple[int, ...]:
        return *self.part_choices, 2, 2, len(KINDS), 1 + self.paraphrases, self.edit_choices

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, source, is_edit, kind, choice, edit = point
        first, second = self.reduced(parts)
        own, other = (second.text, first.text) if source else (first.text, second.text)
        pair, of, second_is = (first.text, second.text), "the second" if source else "the first", ""
        if is_edit:
            changed = _changed(second if source else first, KINDS[kind])
            if changed is None:
                return None
            other, pair, of, second_is = (
                changed,
                (own, changed),
                "the first",
                f" (the first, edited: {KINDS[kind]})",
            )
        if same_words(*pair) or await self.said(*pair) is not False:
            return None
        made = await self.made(own, choice, edit, of)
        if made is None:
            return None
        claims = Claim(*pair, False), Claim(made.text, other, True), Claim(made.text, own, True)
        if not await self.are(*claims):
            return None
        why = f'no to "{pair[0]}" and "{pair[1]}"{second_is}, but yes to "{made.text}" ({made.how}) with both of them'
        return Contradiction(why, claims, (*((KINDS[kind],) if is_edit else ()), *made.edits))


class YesSearch(PairSearch):
    """A point: whether each neutral edit of the first sentence, then of the second, is made; the largest first."""

    @cached_property
    def edits(self) -> tuple[tuple[int, str], ...]:
        """The sentences (0 or 1) and the names of their edits."""
        return tuple(
            (number, name)
            for number, sentence in enumerate((self.first, self.second))
            for name in reversed([*neutral_edits(sentence.text)])
        )

    @property
    def size(self) -> tuple[int, ...]:
        return (2,) * len(self.edits)

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        made = [edit for edit, choice in zip(self.edits, point, strict=True) if choice]
        before = self.first.text, self.second.text
        first, second = (
            edited(text, [name for name in EDITS if (number, name) in made])
            for number, text in enumerate(before)
        )
        claims = Claim(*before, True), Claim(first, second, False)
        if not await self.are(*claims):
            return None
        names = tuple(name for _, name in made)
        changed = Levenshtein.distance(before[0], first) + Levenshtein.distance(before[1], second)
        why = (
            f'yes to "{before[0]}" and "{before[1]}", but no to "{first}" and "{second}" ({", ".join(names)})'
        )
        return Contradiction(why, claims, names, (len(made), changed))


class SymmetrySearch(PairSearch):
    """A point: parts of both sentences; second sentence or minimal edit of the first, kind of edit."""

    @property
    def size(self) -> tuple[int, ...]:
        return *self.part_choices, 2, len(KINDS)

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, is_edit, kind = point
        first, second = self.reduced(parts)
        other = _changed(first, KINDS[kind]) if is_edit else second.text
        if other is None or same_words(first.text, other):
            return None
        said = await self.said(first.text, other)
        if said is None:
            return None
        claims = Claim(first.text, other, said), Claim(other, first.text, not said)
        if not await self.are(*claims):
            return None
        one, two = ("yes", "no") if said else ("no", "yes")
        why = f'{one} to "{first.text}" and "{other}", but {two} to the same sentences in the other order'
        return Contradiction(why, claims, (KINDS[kind],) if is_edit else ())


class TransitivitySearch(_Paraphrasing):
    """A point: parts; which sentence is a; b and c, each the other sentence (0) or a paraphrase of the one before."""

    @property
    def size(self) -> tuple[int, ...]:
        paraphrase = 2 + self.paraphrases, self.edit_choices
        return *self.part_choices, 2, *paraphrase, *paraphrase

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, start, middle, middle_edit, end, end_edit = point
        reduced = self.reduced(parts)
        a, other = reduced[start].text, _Made(reduced[1 - start].text, "the other sentence of the pair")
        b = await self.made(a, middle - 1, middle_edit, "the first") if middle else other
        if b is None:
            return None
        c = await self.made(b.text, end - 1, end_edit, "the second") if end else other
        if c is None or len({a, b.text, c.text}) < 3 or await self.said(a, c.text) is not False:
            return None
        claims = Claim(a, b.text, True), Claim(b.text, c.text, True), Claim(a, c.text, False)
        if not await self.are(*claims):
            return None
        why = (
            f'yes to "{a}" and "{b.text}" ({b.how}), yes to the second and "{c.text}" ({c.how}), but no to the first'
            " and the third"
        )
        return Contradiction(why, claims, b.edits + c.edits)


PAIR_PROPERTIES: Mapping[str, type[PairSearch]] = {
    NO: NoSearch,
    YES: YesSearch,
    SYMMETRY: SymmetrySearch,
    TRANSITIVITY: TransitivitySearch,
}
