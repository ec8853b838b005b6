"""Shorter versions of a sentence: parts that can be left out, so that a sentence remains.

With a tree, the parts are modifiers and second conjuncts: prepositional and adverbial phrases, clauses, parentheses,
adjectives and adverbs that are not the head of their phrase. Without one, they are the texts between commas, semicolons
and dashes, except the longest. A shorter sentence need not mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_llmprops.benchmarks.oracle.trees import Node, Parsed, Span, Tree, collapsed

#: maximum number of parts of a sentence, the longest first
MOST = 8
#: prepositions that begin an adjunct; after others, such as "of" and "to", a word may need the phrase
_ADJUNCT = frozenset(
    [
        "after", "along", "amid", "at", "because", "before", "behind", "below", "beneath", "beside", "by",
        "despite", "during", "for", "in", "inside", "near", "on", "outside", "since", "through", "throughout",
        "under", "until", "with", "within", "without",
    ]
)  # fmt: skip
#: adverbs after which a phrase can be left out
_PLACES = frozenset({"again", "away", "back", "down", "here", "home", "off", "out", "there", "up", "well"})
_FINITE, _JOINTS = frozenset({"VBZ", "VBD", "VBP", "MD"}), frozenset({"WDT", "WP", "WRB", "IN", "CC", ","})
#: phrases whose parts belong together
_WHOLE = frozenset({"QP", "PP", "SBAR", "WHPP", "PRN", "ADJP", "ADVP"})
#: conjunctions that begin an adverbial clause
_ADVERBIAL = frozenset(
    [
        "after", "although", "because", "before", "if", "once", "since", "though", "unless", "until", "when",
        "while",
    ]
)  # fmt: skip
_RELATIVE = frozenset({"who", "which", "that", "where", "whose"})
#: antecedents that need their relative clause
_BARE = frozenset(
    {
        "all",
        "anyone",
        "everyone",
        "first",
        "last",
        "nobody",
        "nothing",
        "one",
        "ones",
        "only",
        "something",
        "that",
        "this",
        "those",
        "way",
    }
)
#: verbs that need the phrase after their object or their passive form
_NEEDY = re.compile(
    r"(?:put|set|sets|setting|lay|laid|lays|leave|leaves|left|keep|keeps|kept|hold|holds|held|bring|brings|brought"
    r"|(?:bas|plac|locat|situat|compos|mak|us|fill|equipp|link|attach|connect|compar|replac|provid|charg|fac|blam|divid"
    r"|tak|treat|regard|born|becom|turn|spend|spent|found|nam|cover|involv|join|load|describ|list|follow)(?:e|es|ed|ing|en|s)?"
    r"|made|took|born|did|do|does|went|go|goes|came|comes|had|has|have|found|finds?)\Z"
)
#: adverbs that can be left out; so can those in -ly
_ADVERBS = frozenset(
    [
        "again", "already", "also", "now", "often", "recently", "soon", "still", "today", "tomorrow", "twice",
        "yesterday",
    ]
)  # fmt: skip
_NOT_ADVERBS = frozenset(
    {
        "early",
        "friendly",
        "nearly",
        "only",
        "likely",
        "unlikely",
        "hardly",
        "barely",
        "rarely",
        "scarcely",
        "exactly",
    }
)
#: adjectives that the noun or the article may need
_KEPT = frozenset(
    [
        "additional", "all", "another", "different", "double", "due", "fellow", "few", "first", "following",
        "former", "full", "half", "joint", "key", "last", "latter", "main", "many", "more", "most", "much",
        "next", "only", "other", "overall", "own", "past", "previous", "prime", "same", "second", "several",
        "single", "sole", "such", "third", "top", "total", "usual", "very", "whole", "wrong", "able", "least",
        "less", "chief", "great", "good", "certain",
    ]
)  # fmt: skip
_TEMPORAL = re.compile(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun|to|yester)day|January|February|March|April|May|June|July|August"
    r"|September|October|November|December|day|week|month|year|decade|century|morning|afternoon|evening|night|time"
    r"|hour|minute|moment|quarter|spring|summer|autumn|winter|season)s?\Z",
    re.IGNORECASE,
)
#: what does not begin a main clause
_SUBORDINATE = re.compile(
    r"\W*(?:after|although|and|as|at|because|before|but|by|for|from|if|in|on|or|since|that|though|unless|until|when"
    r"|where|which|while|who|whose|with)\b",
    re.IGNORECASE,
)
_NEGATIVE = frozenset(
    {"no", "not", "n't", "n’t", "never", "nor", "neither", "only", "hardly", "rarely", "seldom"}
)
_BE = frozenset({"am", "are", "be", "been", "being", "is", "was", "were", "'s", "'re"})
_CORRELATIVE = frozenset(
    {"between", "both", "either", "neither", "not", "only", "whether", "from", "same", "each"}
)
_SEPARATORS = frozenset({",", ";", ":", "-", "--", "–", "—"})
_ENDS = frozenset({".", "!", "?"})


@dataclass(frozen=True)
class Reducible:
    """A sentence, with its tree if a parser returned one."""

    text: str
    parsed: Parsed | None = None

    @cached_property
    def parts(self) -> tuple[Span, ...]:
        """The parts that can be left out, in tokens of the tree, or else in characters of the text."""
        found = set(_modifiers(self.parsed) if self.parsed else _segments(self.text))
        return tuple(sorted(found, key=lambda span: (span[0] - span[1], span))[:MOST])

    def without(self, parts: Collection[Span]) -> Reducible:
        """Return the sentence without some of its :attr:`parts`."""
        if not parts:
            return self
        if self.parsed is None:
            return Reducible(_joined(self.text, parts))
        return _reduced(self.parsed, {token for start, end in parts for token in range(start, end)})


def _modifiers(sentence: Parsed) -> Iterator[Span]:
    tree = sentence.tree
    if "S" not in tree.root.label.split("+"):
        # The parser found no clause, so its phrases are in doubt.
        return
    for place, node in enumerate(tree.nodes):
        parent = tree.parents[place]
        if parent < 0:
            continue
        above, span = tree.nodes[parent], None
        if node.label == "CC":
            span = _conjunct(tree, node, above, tree.parents[parent])
        elif _is_modifier(tree, place, node, above):
            span = node.start, node.end
        if span is not None and _leaves_words_whole(sentence, span):
            yield span


def _leaves_words_whole(sentence: Parsed, span: Span) -> bool:
    """Return True if a span is not part of a hyphenated word, and no comma is left without its partner."""
    (start, _), (_, end) = sentence.spans[span[0]], sentence.spans[span[1] - 1]
    before, after = sentence.text[max(start - 1, 0) : start], sentence.text[end : end + 1]
    tokens = sentence.tree.tokens
    following = tokens[span[1]] if span[1] < len(tokens) else ""
    has_comma = (
        "," in tokens[span[0] : span[1]] and following == "," and span[0] > 0 and tokens[span[0] - 1] != ","
    )
    is_loose = not before.strip() or before in '(“"—'
    return is_loose and not (after.isalnum() or (after and after in "-/'’–")) and not has_comma


def _is_modifier(tree: Tree, place: int, node: Node, above: Node) -> bool:
    labels, outer = set(node.label.split("+")), set(above.label.split("+"))
    others = [c for c in above.children if c is not node and _has_word(tree, c)]
    if not others or not _is_balanced(tree, node) or outer & _WHOLE:
        return False
    is_noun_phrase = bool(outer & {"NP", "NML"})
    if not node.children and tree.tags[node.start].startswith("JJ"):
        return is_noun_phrase and _is_free_adjective(tree, node, above)
    if "ADVP" in labels or (not node.children and tree.tags[node.start] == "RB"):
        return _is_free_adverb(tree, node, above)
    if "PRN" in labels:
        return True
    is_clause = "SBAR" in labels
    if not (is_clause or "PP" in labels) or not node.children or not _is_on_its_own(tree, node, above):
        return False
    if is_noun_phrase:
        return _is_free_postmodifier(tree, node, above, is_clause)
    first = tree.tokens[node.start].lower()
    # "It closed, which hurt."
    is_remark = is_clause and first == "which" and tree.tokens[node.start - 1] == ","
    if not is_remark and first not in (_ADVERBIAL if is_clause else _ADJUNCT):
        return False
    # "is saved in EPC and is entered"
    if node.end < len(tree.tokens) and tree.tags[node.end] in ("VBZ", "VBD", "VBP", "MD"):
        return False
    if outer & {"S", "SINV", "SQ", "TEXT", "ROOT"}:
        return _is_free_opening(tree, node, above)
    return "VP" in outer and _is_free_in_predicate(tree, place, node, above, is_clause)


def _is_on_its_own(tree: Tree, node: Node, above: Node) -> bool:
    """Return True if a phrase or clause is no part of a longer one that the tree does not show.

    Such as "from … until …", "with the lamp burning", "and again in …", "even if …", "more in … than …".
    """
    first, before = tree.tokens[node.start].lower(), tree.tokens[node.start - 1] if node.start else ""
    following, tag = (
        (tree.tokens[node.end].lower(), tree.tags[node.end]) if node.end < len(tree.tokens) else ("", "")
    )
    inside = {token.lower() for token in tree.tokens[node.start : node.end]}
    if inside & {"than", "as"} or (first not in _RELATIVE and inside & {"which", "whom", "whose", "what"}):
        return False
    siblings = [c for c in above.children if c.end <= node.start]
    is_range = first == "until" and any(tree.tokens[c.start].lower() == "from" for c in siblings)
    is_time = any(map(_TEMPORAL.match, tree.tokens[node.end : node.end + 2]))
    goes_on = (tag.startswith(("DT", "NN", "PRP", "CD", "JJ")) and not is_time) or following in (
        "than",
        "only",
        "alone",
    )
    # "in a0 to a7", "with A, B and C"
    after = tree.tags[node.end + 1] if node.end + 1 < len(tree.tags) else ""
    goes_on = goes_on or (following == "to" and after != "VB") or (tag == "," and after.startswith("NN"))
    is_listed = bool(inside & {"and", "or"}) and "," in tree.tokens[above.start : node.start]
    if first in ("with", "by"):
        goes_on = goes_on or tag.startswith("RB") or (first == "by" and tag == ",")
    if node.start == 0:
        return True
    has_predicate = tag in ("VBG", "VBN") or (first == "with" and tag.startswith("VB"))
    is_place = (before.endswith("ly") or before in _PLACES) and tree.tags[max(node.start - 2, 0)] != "CC"
    is_led = tree.tags[node.start - 1] in ("RB", "RBR", "CC", "IN") and not is_place
    # A title may go on: "Girl with a Heron".
    is_title = node.start > 1 and before[:1].isupper() and not tree.tags[node.start - 1].startswith("NNP")
    return not (is_range or goes_on or is_listed or has_predicate or is_led or is_title)


def _is_free_opening(tree: Tree, node: Node, above: Node) -> bool:
    """Return True if a subject and a predicate remain, in this order, so that nothing is inverted."""
    kept = [c for c in above.children if c is not node]
    subject = next((c.start for c in kept if set(c.label.split("+")) & {"NP", "EX"}), None)
    predicate = next((c.start for c in kept if "VP" in c.label.split("+")), None)
    tokens = {token.lower() for token in tree.tokens[node.start : node.end]}
    return (
        subject is not None
        and predicate is not None
        and subject < predicate
        and not (node.start == above.start and tokens & _NEGATIVE)
    )


def _is_free_in_predicate(tree: Tree, place: int, node: Node, above: Node, is_clause: bool) -> bool:
    """Return True if the verb has what it needs without the phrase."""
    earlier = [c for c in above.children if c.end <= node.start and _has_word(tree, c)]
    if not earlier or earlier[0].children:
        return False
    verb = next(
        (c for c in reversed(earlier) if tree.tags[c.start].startswith(("VB", "MD")) and not c.children),
        earlier[0],
    )
    word, complements = tree.tokens[verb.start].lower(), [c for c in earlier if c.start > verb.start]
    complements = [
        c
        for c in complements
        if not set(c.label.split("+")) & {"ADVP"} and tree.tags[c.start] not in ("RP", "RB")
    ]
    follows_comma = tree.tokens[node.start - 1] in _SEPARATORS
    if follows_comma and complements:
        return True
    is_time = any(map(_TEMPORAL.match, tree.tokens[node.start : node.end]))
    if complements:
        own = set(complements[0].label.split("+"))
        # "makes it hard for …", "told him about …": the verb's second complement comes first.
        is_second = len(complements) == 1 and _NEEDY.match(word) is not None and not is_time
        return (bool(own & {"NP", "PP", "NML", "PRP"}) or not complements[0].children) and not is_second
    if is_clause:
        return tree.tokens[node.start].lower() != "if" and word not in _BE
    return _is_passive(tree, place) and (_NEEDY.match(word) is None)


def _is_passive(tree: Tree, place: int) -> bool:
    """Return True if the predicate around a node is a participle after a form of "be"."""
    inner, outer = tree.parents[place], tree.parents[tree.parents[place]]
    if outer < 0 or tree.tags[tree.nodes[inner].start] != "VBN":
        return False
    node = tree.nodes[outer]
    leaves = [c for c in node.children if not c.children and c.end <= tree.nodes[inner].start]
    return any(tree.tokens[c.start].lower() in _BE for c in leaves)


def _is_free_postmodifier(tree: Tree, node: Node, above: Node, is_clause: bool) -> bool:
    """Return True if a noun does not need the phrase or the relative clause after it."""
    earlier = [c for c in above.children if c.end <= node.start]
    if not earlier:
        return False
    head = node.start - 1
    while head > above.start and not tree.is_word(head):
        head -= 1
    base = {token.lower() for token in tree.tokens[above.start : node.start]}
    # "more … than", "the first …", "those who …" need the rest.
    if base & (_BARE | {"more", "less", "fewer", "such", "so", "as"}) or _TEMPORAL.match(tree.tokens[head]):
        return False
    if is_clause:
        has_marker = tree.tokens[node.start].lower() in _RELATIVE and tree.tags[node.start] != "IN"
        # "an ACK that covers it has been received"
        tags = tree.tags[node.start : node.end]
        verbs, joints = (sum(tag in kinds for tag in tags) for kinds in (_FINITE, _JOINTS))
        return has_marker and tree.tags[head].startswith("NN") and verbs <= max(joints, 1)
    # "calls for …", "need for …"; a name may go on ("Winter at Pier Nine").
    is_adjunct = tree.tokens[node.start].lower() in _ADJUNCT - {"for"}
    return is_adjunct and tree.tags[head] in ("NN", "NNS") and tree.tokens[head].islower()


def _is_free_adjective(tree: Tree, node: Node, above: Node) -> bool:
    """Return True if an adjective can be left out before its noun."""
    word, tag, after = tree.tokens[node.start], tree.tags[node.start], node.end
    if tag != "JJ" or word.lower() in _KEPT or not word.islower() or after >= above.end:
        return False
    nouns = range(after, above.end)
    if not all(
        tree.tags[t] in ("NN", "NNS", "JJ") for t in range(after, min(after + 1, above.end))
    ) or not any(tree.tags[t] in ("NN", "NNS") for t in nouns):
        return False
    before = tree.tokens[node.start - 1].lower() if node.start else ""
    is_ordinal = before == "the" and _TEMPORAL.match(tree.tokens[after])
    if node.start == above.start or before in ("very", "so", "too", "as") or is_ordinal:
        return False
    # "an old man", but "a man"; letters do not tell the sound of "hour" and "one".
    vowels = [word[0] in "aeio", tree.tokens[after][0].lower() in "aeio"]
    in_doubt = re.match("[hu]|eu|on[ce]", word) or re.match("[hu]|eu|on[ce]", tree.tokens[after].lower())
    return before not in ("a", "an") or (vowels[0] == vowels[1] and not in_doubt)


def _is_free_adverb(tree: Tree, node: Node, above: Node) -> bool:
    """Return True if an adverb can be left out of a clause or a predicate."""
    word = tree.tokens[node.start].lower()
    outer = set(above.label.split("+"))
    fits = word in _ADVERBS or (word.endswith("ly") and word not in _NOT_ADVERBS)
    is_last = node.end < len(tree.tokens) and tree.tags[node.end].startswith(("JJ", "RB", "CD", "IN"))
    return fits and node.size == 1 and bool(outer & {"VP", "S"}) and not is_last


def _conjunct(tree: Tree, node: Node, above: Node, higher: int) -> Span | None:
    """Return the conjunction and what follows it, if two phrases are joined and the first can stand alone."""
    words = [child for child in above.children if _has_word(tree, child)]
    if len(words) != 3 or words[1] is not node or tree.tokens[node.start].lower() not in ("and", "or", "but"):
        return None
    first, last = (set(child.label.split("+")) for child in (words[0], words[2]))
    nearby = {token.lower() for token in tree.tokens[max(above.start - 2, 0) : node.start]}
    if not first & last & {"NP", "VP", "S", "NML"} or nearby & _CORRELATIVE:
        return None
    # "signed and delivered the letter"
    if words[2].children and not words[0].children:
        return None
    if "NP" in first and "," in tree.tokens[words[0].start : words[0].end]:
        return None
    # "a, b, and c" may be nested.
    has_clause = words[0].children and words[0].children[0].label.split("+")[0] == "S"
    if has_clause or (above.start > 0 and tree.tokens[above.start - 1] == ","):
        return None
    if words[0].end != node.start and tree.tokens[node.start - 1] != ",":
        return None
    outer = tree.nodes[higher].label if higher >= 0 else ""
    # A subject of one conjunct would need another form of the verb.
    if "NP" in above.label.split("+") and set(outer.split("+")) & {"S", "SINV", "SQ", "", "NP"}:
        return None
    if any(tree.tags[t].startswith("NNP") for t in (node.start - 1, node.end)) and "NP" in first:
        return None
    return (node.start, words[2].end) if _is_balanced(tree, words[2]) else None


def _has_word(tree: Tree, node: Node) -> bool:
    return any(map(tree.is_word, range(node.start, node.end)))


def _is_balanced(tree: Tree, node: Node) -> bool:
    """Return True if quotation marks and brackets in the node are in pairs."""
    tokens = tree.tokens[node.start : node.end]
    opening = sum(token in ("``", "“", "(", "[") for token in tokens)
    closing = sum(token in ("''", "”", ")", "]") for token in tokens)
    return opening == closing and tokens.count('"') % 2 == 0


def _reduced(sentence: Parsed, dropped: set[int]) -> Reducible:
    tree = sentence.tree
    kept = _cleaned(tree.tokens, [t for t in range(len(tree.tokens)) if t not in dropped])
    numbers = {token: number for number, token in enumerate(kept)}
    root = _filtered(tree.root, numbers)
    if root is None:
        return Reducible(sentence.text, sentence)
    text, spans = "", []
    tokens = [tree.tokens[token] for token in kept]
    for number, token in enumerate(kept):
        start, end = sentence.spans[token]
        gap = sentence.text[sentence.spans[token - 1][1] : start] if number else ""
        word = sentence.text[start:end]
        if number == 0 and token > 0 and sentence.text[:1].isupper():
            word, tokens[0] = word[:1].upper() + word[1:], tokens[0][:1].upper() + tokens[0][1:]
        elif number and not gap and token - 1 != kept[number - 1] and tree.is_word(token):
            gap = " "
        spans.append((len(text) + len(gap), len(text) + len(gap) + len(word)))
        text += gap + word
    text += sentence.text[sentence.spans[-1][1] :]
    shorter = Tree(collapsed(root), tuple(tokens), tuple(tree.tags[token] for token in kept))
    return Reducible(text, Parsed(text, shorter, tuple(spans)))


def _cleaned(tokens: Sequence[str], kept: Sequence[int]) -> list[int]:
    """Return the kept tokens without the commas and dashes that separated what was left out."""
    result: list[int] = []
    for token in kept:
        word = tokens[token]
        last = result[-1] if result else -1
        has_gap = token - 1 != last
        if word in _SEPARATORS and (not result or (has_gap and tokens[last] in _SEPARATORS)):
            if result:
                result.pop()
            continue
        if word in _SEPARATORS and sum(t in _SEPARATORS for t in tokens[last + 1 : token]) % 2:
            # Its partner was inside of what was left out.
            continue
        if word in _ENDS and has_gap and result and tokens[last] in _SEPARATORS:
            result.pop()
        result.append(token)
    return result


def _filtered(node: Node, numbers: dict[int, int]) -> Node | None:
    if not node.children:
        number = numbers.get(node.start)
        return None if number is None else Node(node.label, number, number + 1)
    children = tuple(c for child in node.children if (c := _filtered(child, numbers)) is not None)
    return Node(node.label, children[0].start, children[-1].end, children) if children else None


def _segments(text: str) -> Iterator[Span]:
    """Yield the texts between commas, semicolons and dashes, each with one of them, except the longest."""
    ends = [match.start() for match in re.finditer(r"[,;] | [–—-] |—", text)]
    spans = list(zip([0, *ends], [*ends, len(text.rstrip(" .!?"))], strict=True))
    main = [span for span in spans if not _SUBORDINATE.match(text[slice(*span)])] or spans
    longest = max(main, key=lambda span: span[1] - span[0])
    yield from (span for span in spans if span != longest)


def _joined(text: str, dropped: Collection[Span]) -> str:
    kept = "".join(c for n, c in enumerate(text) if not any(start <= n < end for start, end in dropped))
    kept = re.sub(r"^[\s,;–—-]+", "", kept)
    return kept[:1].upper() + kept[1:] if text[:1].isupper() else kept
