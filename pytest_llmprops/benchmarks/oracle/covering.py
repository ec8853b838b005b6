"""Potential alignments that must cover both sentences: the alternative to Algorithm 1 (``oracle.alignment=covering``).

Algorithm 1 needs mappings that cover one of the sentences, and it asks about pieces such as "It" and "the". Here, the
constituents of both sentences are linked, and the links are divided until the phrases are small:

1. Constituents are linked in the order of their similarity, each at most once. Links do not cross: what is inside a
   linked phrase is only linked to what is inside its counterpart (sub-tree alignment, Zhechev and Way 2008).
2. A link is divided into the links inside it if these contain every word that carries meaning. A function word, such as
   a preposition, a negation or a modal verb, must be inside a link, or stand beside the same links in both sentences.
   Articles, auxiliaries, "of", "that" and the like carry no meaning of their own.
3. A word that no link contains is covered by its enclosing constituent and the smallest constituent around its
   counterparts, or by what remains of a constituent without the linked phrases at its ends.
4. A link that cannot be divided is one phrase pair. The whole sentence is none, so a pair whose sentences cannot be
   divided has no alignment.

Nothing is asked about a phrase without a content word, and nothing about two single words if the phrase around them is
not the whole sentence. Two phrases are not linked if they contradict each other: each has a number that the other does
not have, they differ only in a negation, one is the agent of a verb and the other the patient, or one is an argument
of a verb and the other a prepositional phrase. If one sentence adds several words to the other, they have no alignment.

``data/oracle/README.md`` has the measured shares of both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping, in_order
from pytest_llmprops.benchmarks.oracle.items import Whole
from pytest_llmprops.benchmarks.oracle.phrases import Sentence, inside
from pytest_llmprops.benchmarks.oracle.trees import Array, Parsed, Span, cosines, is_punctuation, node_vectors

#: minimum cosine of linked constituents, and of links made by widening or from what remains; chosen on the built-in
#: pairs and the first 200 rows of MSRP's training file
MIN_SIMILARITY, MIN_WIDENED = 0.5, 0.6
#: minimum cosine of what remains if the other parts have at least this share of each phrase's content words
MIN_REMAINING, MOST = 0.3, 0.5
#: added to the similarity of phrases with the same words
SAME_WORDS = 0.3
#: subtracted from the similarity, times the share of content words that the longer phrase has more
SIZE_PENALTY = 0.3
#: how often the links are made anew without the link that differs most in size
ATTEMPTS = 5
#: content words of only one sentence without a counterpart that count as an addition
ADDITION = 2
#: personal pronoun -> its subject form
_PRONOUNS = {
    "he": "he", "him": "he", "i": "i", "it": "it", "me": "i", "she": "she", "her": "she", "they": "they",
    "them": "they", "us": "we", "we": "we", "you": "you",
}  # fmt: skip


def align_covering(
    first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array, *, whole: Whole = "bar"
) -> Alignments:
    """Return the potential alignments that cover both sentences. Both directions have the same mappings.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :param whole: whether the two whole sentences are a phrase pair if they cannot be divided.
    :raises ValueError: if there is not one vector per token.
    """
    one, two = Sentence.of(first, first_vectors), Sentence.of(second, second_vectors)
    # The order of the two sentences must not change the mappings.
    is_swapped = second.text < first.text
    linker = _Linker(two, one, whole) if is_swapped else _Linker(one, two, whole)
    pairs, around, settled = linker.result()
    if is_swapped:
        pairs, around = [_turned(m) for m in pairs], [_turned(m) for m in around]
        settled = settled[::-1]
    forward = in_order(pairs)
    backward = in_order(_turned(m) for m in pairs)
    return Alignments(first, second, forward, backward, both=True, settled=settled, around=in_order(around))


def _turned(mapping: NodeMapping) -> NodeMapping:
    return replace(mapping, source=mapping.target, target=mapping.source)


#: the spans of a phrase pair in the two sentences
_Link = tuple[Span, Span]
_BOTH = (0, 1)
#: the phrase pairs, the links around them, and the tokens of each sentence that need no mapping
_Result = tuple[list[NodeMapping], list[NodeMapping], tuple[frozenset[int], frozenset[int]]]


def _apart(one: Span, two: Span) -> bool:
    return one[1] <= two[0] or two[1] <= one[0]


def _holds(link: _Link, part: _Link) -> bool:
    """Return True if ``part`` is another link inside ``link``."""
    return part != link and inside(part[0], link[0]) and inside(part[1], link[1])


def _hull(spans: Sequence[Span]) -> Span:
    """Return the smallest span that contains all of them."""
    return min(start for start, _ in spans), max(end for _, end in spans)


def _agree(one: _Link, two: _Link) -> bool:
    """Return True if two links do not cross: they are apart in both sentences, or one is inside the other in both."""
    if one[0] == two[0] or one[1] == two[1]:
        return False
    if _apart(one[0], two[0]):
        return _apart(one[1], two[1])
    return _holds(one, two) or _holds(two, one)


class _Linker:
    """Links the constituents of two sentences and divides them into phrase pairs."""

    def __init__(self, one: Sentence, two: Sentence, whole: Whole) -> None:
        self.sentences = one, two
        self.whole = whole
        self.root: _Link = (0, len(one.kinds)), (0, len(two.kinds))
        self.links: list[_Link] = []
        #: the parts of the whole sentences, once they are divided
        self.top: list[_Link] = []
        self.candidates = self._candidates()

    def result(self) -> _Result:
        """Return the phrase pairs, the links around them, and the words of each sentence that need no mapping.

        If there is no alignment, the pairs are the largest links, and some words are neither in them nor settled.
        """
        barred: list[_Link] = []
        for _ in range(ATTEMPTS):
            self._link(barred)
            first = self._below(self.root)
            pairs = self._divided(self.root)
            if pairs is not None:
                return self._mapped(pairs)
            uneven = [link for link in first if self._unevenness(link)]
            if not uneven:
                break
            barred.append(max(uneven, key=lambda link: (self._unevenness(link), -self._similarity(link))))
        whole = self.sentences[0].tree.core, self.sentences[1].tree.core
        # A sentence of one word has no other phrase.
        is_barred = self.whole == "bar" and all(len(sentence.spans) > 1 for sentence in self.sentences)
        if not is_barred and self._may_link(whole):
            return self._mapped([whole])
        self._link([])
        top = self._below(self.root)
        unsettled = self._open(self.root, top)
        if any(unsettled):
            return self._mapped(top, unsettled)
        # The parts cover all words, but their order may change what the sentence says.
        return self._mapped([], self._loose(self.root, []))

    def _mapped(self, pairs: Sequence[_Link], unsettled: tuple[list[int], list[int]] = ([], [])) -> _Result:
        """Return the result for some pairs.

        :param unsettled: words of each sentence that must be covered, but are in no pair.
        """
        asked = [pair for pair in pairs if self._has_content(pair)]
        one, two = (
            frozenset(range(len(self.sentences[side].kinds))).difference(
                unsettled[side], *(range(*pair[side]) for pair in asked)
            )
            for side in _BOTH
        )
        joined = [self._joined(part, self.top) for part in self.top if not self._same(part)]
        around = [
            link
            for link in dict.fromkeys([*self.links, *filter(None, joined)])
            if self._has_content(link) and any(_holds(link, pair) for pair in asked)
        ]
        return (
            [NodeMapping(*pair, self._similarity(pair)) for pair in asked],
            [NodeMapping(*link, self._similarity(link)) for link in around],
            (one, two),
        )

    # Links

    def _candidates(self) -> list[_Link]:
        """Return the pairs of constituents that may be linked, the best first."""
        one, two = self.sentences
        vectors = [node_vectors(s.tree, s.vectors) for s in self.sentences]
        similarity = cosines(vectors[0], vectors[1])
        ranked = []
        phrases = [
            [(span, place) for span, place in s.spans.items() if not s.is_whole(span)] for s in self.sentences
        ]
        for first, row in phrases[0]:
            for second, column in phrases[1]:
                cosine = float(similarity[row, column])
                link = first, second
                # NaN fails the comparison, too.
                if not cosine >= MIN_SIMILARITY or not (self._has_content(link) or self._same_pronoun(link)):
                    continue
                if one.phrase(first).contradicts(two.phrase(second)):
                    continue
                same = not self._has_content(link) or one.phrase(first).words == two.phrase(second).words
                score = cosine + SAME_WORDS * same - SIZE_PENALTY * self._unevenness(link)
                distance = abs(first[0] / len(one.kinds) - second[0] / len(two.kinds))
                size = first[1] - first[0] + second[1] - second[0]
                ranked.append((-round(score, 6), -size, distance, link))
        return [link for *_, link in sorted(ranked)]

    def _link(self, barred: Collection[_Link]) -> None:
        """Link the best candidates that do not cross, except the barred ones; drop additions, the smallest first."""
        self.links = []
        for link in self.candidates:
            if link not in barred and all(_agree(link, other) for other in self.links):
                self.links.append(link)
        for link in sorted(self.links, key=lambda link: sum(end - start for start, end in link)):
            if self._adds(link, self._below(link)):
                self.links.remove(link)

    def _has_content(self, link: _Link) -> bool:
        return all(self.sentences[side].phrase(link[side]).content for side in _BOTH)

    def _same_pronoun(self, link: _Link) -> bool:
        """Return True for the same personal pronoun in both sentences, in any case."""
        words = [self.sentences[side].phrase(link[side]).words for side in _BOTH]
        forms = [_PRONOUNS.get(word[0]) if len(word) == 1 else None for word in words]
        return forms[0] is not None and forms[0] == forms[1]

    def _same(self, link: _Link) -> bool:
        """Return True if the phrases need no question: they have the same words, or are the same pronoun."""
        one, two = (self.sentences[side].parsed.phrase(link[side]).casefold() for side in _BOTH)
        return one == two or not self._has_content(link)

    def _unevenness(self, link: _Link) -> float:
        """Return the share of content words that the longer phrase has more than the shorter one."""
        one, two = (self.sentences[side].phrase(link[side]).content for side in _BOTH)
        return abs(one - two) / max(one, two, 1)

    def _similarity(self, link: _Link) -> float:
        """Return the cosine of the phrases' mean vectors; 0 if one has none."""
        one, two = (self.sentences[side].mean(link[side]) for side in _BOTH)
        cosine = float(cosines(one[None, :], two[None, :])[0, 0])
        return cosine if cosine == cosine else 0.0

    # Division into phrase pairs

    def _below(self, link: _Link) -> list[_Link]:
        """Return the largest links inside a link, in order."""
        parts = [other for other in self.links if _holds(link, other)]
        return sorted(other for other in parts if not any(_holds(larger, other) for larger in parts))

    def _divided(self, link: _Link) -> list[_Link] | None:
        """Return the phrase pairs of a link; None if the whole sentences cannot be divided."""
        is_root = link == self.root
        if not is_root and self._same(link):
            return [link]
        parts = None
        if is_root and all(self._open(link, self._below(link))):
            parts = self._remaining(link)
        if parts is None:
            parts = self._parts(link)
        if parts is None and is_root:
            parts = self._remaining(link)
        if is_root and (parts is None or not any(map(self._has_content, parts))):
            return None
        if is_root:
            self.top = list(parts or ())
        if parts is None or (not is_root and any(map(self._is_weak, parts))):
            return [link]
        return list(dict.fromkeys(pair for part in parts for pair in self._divided(part) or ()))

    def _is_weak(self, link: _Link) -> bool:
        """Return True for two different single words: what they mean depends on the phrase around them."""
        return not self._same(link) and all(
            self.sentences[side].phrase(link[side]).content < 2 for side in _BOTH
        )

    def _parts(self, link: _Link) -> list[_Link] | None:
        """Return the links into which a link can be divided, after widening some; None if there are none."""
        # Every widened link is larger than those that it replaces, so this ends.
        while parts := self._below(link):
            unsettled = self._open(link, parts)
            if not any(unsettled):
                return None if self._is_reordered(link, parts) or self._changes_verbs(parts) else parts
            if not any(self._widen(side, token, link) for side in _BOTH for token in unsettled[side]):
                return None
        return None

    def _changes_verbs(self, parts: Sequence[_Link]) -> bool:
        """Return True if a part is an argument of verbs that are in different parts ("inherit the castle")."""
        for part in parts:
            places = []
            for side, sentence in enumerate(self.sentences):
                argument = sentence.argument(part[side])
                if argument is None or inside((argument.verb, argument.verb + 1), part[side]):
                    break
                verb = argument.verb
                places.append([i for i, p in enumerate(parts) if p[side][0] <= verb < p[side][1]])
            if len(places) == len(_BOTH) and places[0] != places[1]:
                return True
        return False

    def _is_reordered(self, link: _Link, parts: Sequence[_Link]) -> bool:
        """Return True if parts whose meaning depends on their order have another order in the second sentence.

        These are the parts of a noun phrase ("car park"), and two noun phrases of a clause if neither is known to be
        the same argument in both sentences ("gave the boy the dog").
        """
        moved = [(one, two) for one in parts for two in parts if one[0] < two[0] and one[1] > two[1]]
        if any(self.sentences[side].is_nominal(link[side]) for side in _BOTH):
            return bool(moved)
        return any(
            all(self.sentences[side].is_nominal(part[side]) for part in pair for side in _BOTH)
            and not any(all(self.sentences[s].has_place(part[s]) for s in _BOTH) for part in pair)
            for pair in moved
        )

    def _loose(self, link: _Link, parts: Sequence[_Link]) -> tuple[list[int], list[int]]:
        """Return the words with a meaning of each phrase that are in none of its parts."""
        one, two = (
            [
                token
                for token in range(*link[side])
                if self.sentences[side].kinds[token] != "form"
                and not any(part[side][0] <= token < part[side][1] for part in parts)
            ]
            for side in _BOTH
        )
        return one, two

    def _open(self, link: _Link, parts: Sequence[_Link]) -> tuple[list[int], list[int]]:
        """Return the words with a meaning of each phrase that its parts do not cover.

        A function word is covered if the other phrase has the same one in the same place.
        """
        one, two = self._loose(link, parts)
        left = []
        for token in one:
            twin = next((other for other in two if self._are_twins(token, other, link, parts)), None)
            if twin is None:
                left.append(token)
            else:
                two.remove(twin)
        tenses = [self._tenses(side, link, parts) for side in _BOTH]
        if link != self.root and all(tenses) and tenses[0] != tenses[1]:
            return [*left, *sorted(tenses[0].values())], [*two, *sorted(tenses[1].values())]
        return left, two

    def _are_twins(self, token: int, other: int, link: _Link, parts: Sequence[_Link]) -> bool:
        one, two = self.sentences
        if one.kinds[token] != "meaning" or two.kinds[other] != "meaning":
            return False
        if one.tree.tokens[token].lower() != two.tree.tokens[other].lower():
            return False
        return bool(self._places(0, token, link, parts) & self._places(1, other, link, parts))

    def _places(self, side: int, token: int, link: _Link, parts: Sequence[_Link]) -> set[int]:
        """Return where a function word is: directly in the phrase (-1), before a part, or behind the verb of a part."""
        sentence = self.sentences[side]
        places = {-1} if next(sentence.above(token)) == sentence.around(link[side]) else set()
        if sentence.tree.tags[token] == "RP":
            return places | {i for i, part in enumerate(parts) if part[side][1] == token}
        governed = self._next(side, token, parts, chain=sentence.tree.tags[token] not in ("IN", "TO", "ADP"))
        return places | {i for i, part in enumerate(parts) if part[side][0] <= governed < part[side][1]}

    def _next(self, side: int, token: int, parts: Sequence[_Link], *, chain: bool = False) -> int:
        """Return the next token that is in a part or has a meaning; ``chain`` skips modal verbs and adverbs."""
        sentence = self.sentences[side]
        token += 1
        while token < len(sentence.kinds) and not any(p[side][0] <= token < p[side][1] for p in parts):
            skipped = chain and sentence.tree.tags[token][:2] in ("MD", "RB", "WR")
            if sentence.kinds[token] == "content" or (sentence.kinds[token] == "meaning" and not skipped):
                break
            token += 1
        return token

    def _tenses(self, side: int, link: _Link, parts: Sequence[_Link]) -> dict[bool, int]:
        """Return the finite auxiliaries outside the parts: whether it is a past tense -> token."""
        sentence = self.sentences[side]
        return {
            sentence.tree.tags[token] == "VBD": token
            for token in range(*link[side])
            if sentence.kinds[token] == "form"
            and sentence.tree.tags[token] in ("VBD", "VBP", "VBZ")
            and not any(part[side][0] <= token < part[side][1] for part in parts)
        }

    def _adds(self, link: _Link, parts: Sequence[_Link]) -> bool:
        """Return True if one phrase has several content words without a counterpart, and the other one none."""
        if not parts:
            return False
        loose = self._loose(link, parts)
        counts = [sum(self.sentences[s].kinds[token] == "content" for token in loose[s]) for s in _BOTH]
        return min(counts) == 0 and max(counts) >= ADDITION

    def _may_link(self, link: _Link, minimum: float = MIN_WIDENED) -> bool:
        one, two = (self.sentences[side].phrase(link[side]) for side in _BOTH)
        return self._has_content(link) and self._similarity(link) >= minimum and not one.contradicts(two)

    def _replaced(self, link: _Link) -> list[_Link] | None:
        """Return the links with a new one instead of those with the same phrase; None if it crosses others."""
        kept = [other for other in self.links if all(other[side] != link[side] for side in _BOTH)]
        if not all(_agree(link, other) for other in kept):
            return None
        parts = [other for other in kept if _holds(link, other)]
        largest = [part for part in parts if not any(_holds(other, part) for other in parts)]
        return None if self._adds(link, largest) else [*kept, link]

    def _widen(self, side: int, token: int, within: _Link) -> bool:
        """Link the smallest constituent around a token that has a counterpart inside ``within``; False if none has."""
        for span in self.sentences[side].above(token):
            if not inside(span, within[side]) or span == within[side]:
                return False
            link = self._enclosing(side, span, within)
            if link is None:
                continue
            if not _holds(within, link) or any(within[s] == link[s] for s in _BOTH):
                return False
            if any(self.sentences[s].is_whole(link[s]) for s in _BOTH):
                return False
            if link not in self.links and self._may_link(link):
                links = self._replaced(link)
                if links is not None:
                    self.links = links
                    return True
        return False

    def _enclosing(self, side: int, span: Span, within: _Link) -> _Link | None:
        """Return the smallest constituents around a span and its counterparts; None if it has no counterpart."""
        here, there = self.sentences[side], self.sentences[1 - side]
        known = [link for link in self.links if _holds(within, link)]
        other: Span | None = None
        while True:
            touched = [
                link
                for link in known
                if not _apart(link[side], span) or (other is not None and not _apart(link[1 - side], other))
            ]
            # A link around both is not a part of them.
            touched = [
                link
                for link in touched
                if not (
                    inside(span, link[side])
                    and span != link[side]
                    and (other is None or inside(other, link[1 - side]))
                )
            ]
            if not touched:
                return None
            new_other = there.around(_hull([link[1 - side] for link in touched]))
            new_span = here.around(_hull([span, *(link[side] for link in touched)]))
            if (new_span, new_other) == (span, other):
                return (span, new_other) if side == 0 else (new_other, span)
            span, other = new_span, new_other

    def _remaining(self, link: _Link) -> list[_Link] | None:
        """Return the parts of a link and one more: what remains of a constituent without the parts at its ends.

        It contains all words that the parts do not cover; None if that is not one phrase in both sentences.
        """
        parts = self._below(link)
        unsettled = self._open(link, parts)
        spans: list[list[Span]] = [[], []]
        for side in _BOTH:
            for token in unsettled[side]:
                spans[side].append((token, token + 1))
                if self.sentences[side].kinds[token] == "meaning" or not unsettled[1 - side]:
                    spans[side] += self._governed(side, token, parts)
        inner: list[_Link] = []
        while True:
            hulls = [_hull(found) if found else None for found in spans]
            more = [
                part
                for part in parts
                if part not in inner
                and any(hull and not _apart(part[s], hull) for s, hull in enumerate(hulls))
            ]
            if not more:
                break
            inner += more
            for side in _BOTH:
                spans[side] += [part[side] for part in more]
        if hulls[0] is None or hulls[1] is None:
            return None
        phrase = hulls[0], hulls[1]
        rest = [part for part in parts if part not in inner]
        if not any(map(self._has_content, rest)) or not self._may_link(phrase, self._minimum(link, rest)):
            return None
        if not all(self._is_phrase(side, phrase[side], [part[side] for part in rest]) for side in _BOTH):
            return None
        links = self._replaced(phrase)
        if links is None:
            return None
        self.links = links
        return sorted([*rest, phrase])

    def _minimum(self, link: _Link, rest: Sequence[_Link]) -> float:
        """Return the minimum similarity of what remains of a link: lower if most words are in the other parts."""
        counts = [
            (sum(sentence.phrase(part[side]).content for part in rest), sentence.phrase(link[side]).content)
            for side, sentence in enumerate(self.sentences)
        ]
        return MIN_REMAINING if all(part >= MOST * every for part, every in counts) else MIN_WIDENED

    def _governed(self, side: int, token: int, parts: Sequence[_Link]) -> list[Span]:
        """Return the part that a word belongs to: the next one, or for a particle the one before it."""
        is_particle = self.sentences[side].tree.tags[token] == "RP"
        place = token - 1 if is_particle else self._next(side, token, parts)
        return [part[side] for part in parts if part[side][0] <= place < part[side][1]]

    def _joined(self, part: _Link, parts: Sequence[_Link]) -> _Link | None:
        """Return the smallest phrases that consist of a part and others beside it, but not of all parts."""
        found = []
        for other in parts:
            if other == part:
                continue
            phrase = _hull([part[0], other[0]]), _hull([part[1], other[1]])
            while True:
                inner = [p for p in parts if not all(_apart(p[side], phrase[side]) for side in _BOTH)]
                wider = _hull([p[0] for p in inner]), _hull([p[1] for p in inner])
                if wider == phrase:
                    break
                phrase = wider
            rest = [p for p in parts if p not in inner]
            if (
                any(map(self._has_content, rest))
                and self._may_link(phrase)
                and all(self._is_phrase(side, phrase[side], [p[side] for p in rest]) for side in _BOTH)
            ):
                found.append(phrase)
        return min(found, key=lambda link: (sum(end - start for start, end in link), link), default=None)

    def _is_phrase(self, side: int, span: Span, rest: Sequence[Span]) -> bool:
        """Return True if a span is a constituent without some of the other parts at its ends, and has its head.

        :param rest: the other parts of the sentence.
        """
        sentence = self.sentences[side]
        around = sentence.around(span)
        for token in (*range(around[0], span[0]), *range(span[1], around[1])):
            is_mark = is_punctuation(sentence.tree.tokens[token])
            is_form = sentence.kinds[token] == "form" and (is_mark or token >= span[1])
            if not is_form and not any(part[0] <= token < part[1] for part in rest):
                return False
        for node in sentence.spans:
            is_cut = not (_apart(node, span) or inside(span, node) or inside(node, span))
            if is_cut and node[0] < span[0] and sentence.is_nominal(node):
                return False
            if is_cut or node == around:
                head = sentence.head(node)
                if head is not None and _apart(head, span):
                    return False
        return True
