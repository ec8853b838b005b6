"""Read what a model's reply states: one of several options, a list, a segmentation, or fenced text.

They know no benchmark; the words of the languages are in `reading_words`. Each takes linear time, and no text makes it
raise. A reply that names several options, or only rejects one, states none: no reading is better than a wrong one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from pytest_llmprops.core import reading_words as words
from pytest_llmprops.core.reply_json import found_json
from pytest_llmprops.core.texts import plain, without_tokens

#: A choice is stated at the beginning or the end; of a longer reply, so many characters of both are read.
LONGEST_END = 4_000
#: Of more than twice as many mentions of options, so many at both ends are judged.
_MOST = 50
#: Characters before and after a mention that may say what it is.
_AROUND = 60
#: Markup that has a meaning, and markup that has none.
_MARKUP = [
    (re.compile(r"<(?:answer|label|choice|output|final)>|\\f?boxed\s*\{", re.I), " answer: "),
    (re.compile(r"<li\b[^<>\n]{0,80}>", re.I), "\n- "),
    (re.compile(r"<(?:br|p|tr|/answer|/label|/choice|/output|/final)\b[^<>\n]{0,80}>", re.I), "\n"),
    (re.compile(r"</?(?:[a-z]|em|[ou]l|li|t[dr]|code|div|span|strong|table)\b[^<>\n]{0,80}>", re.I), ""),
    (re.compile(r"\\(?:text|math)\w*\s*\{"), ""),
    (re.compile(r"<([a-z]\w{0,40})>([^<>\n]{1,200})</\1>", re.I), r"\n- \1: \2\n"),
]
_LETTERS = re.compile(r"[^\W\d_]")
_SENTENCE = re.compile(r"[.!?](?=\s)|\n|[.!]\Z")


@dataclass(slots=True)
class _Mention:
    """A mention of an option, and how it counts: 0 not, 1 as mentioned, 2 as the reply's answer."""

    option: int
    start: int
    stop: int
    weight: int = 1
    is_rejected: bool = False


class _Forms(NamedTuple):
    """The forms of all options: their pattern, the option of each, and the function that makes texts comparable."""

    pattern: re.Pattern[str]
    options: dict[str, int]
    spell: Callable[[str], str]


def _key(form: str) -> str:
    return form if len(form) == 1 else re.sub("[ -]", "", form).casefold()


@lru_cache(maxsize=256)
def _forms(options: tuple[tuple[str, ...], ...]) -> _Forms:
    """Return the forms; those of different options that are equal in plain spelling are compared as written."""
    for spell in (plain, without_tokens):
        # A joiner may be written as a space or left out.
        spelled = [
            (spell(re.sub("[\u200c\u200d]", " ", form)).strip() or form, index)
            for index, forms in enumerate(options)
            for form in forms
            if form.strip()
        ]
        own = {_key(form): index for form, index in reversed(spelled)}
        if all(own[_key(form)] == index for form, index in spelled):
            break
    # A label in lower case is an answer too, but of a shape such as P, p is another.
    labels = {form: index for form, index in spelled if re.fullmatch("[A-Z]", form)}
    if {*labels.values()} == set(range(len(options))):
        spelled += [(form.lower(), own.setdefault(form.lower(), index)) for form, index in labels.items()]
    parts = []
    for form in sorted({form for form, _ in spelled}, key=lambda form: (-len(form), form)):
        shape = re.sub(r"(?:\\ |\\-|[ -])+", "[ -]?", re.escape(form)) if len(form) > 1 else re.escape(form)
        begin = words.BEGIN if re.match(words.LETTER, form) else ""
        end = f"{words.END}(?!['-][A-Za-z]|\\+)" if re.match(words.LETTER, form[-1]) else ""
        parts.append(f"{begin}(?i:{shape}){end}" if len(form) > 1 else f"{begin}{shape}{end}")
    return _Forms(re.compile("|".join(parts) or r"(?!)"), own, spell)


def stated(reply: str, options: Sequence[Sequence[str]], *, strict: bool = False) -> int | None:
    """Return the index of the option that a reply states as its answer; None if it states none or several.

    An answer may be the whole reply, a line, a value of JSON, what comes after words such as "the answer is", or the
    only option that is mentioned and not rejected. What a reply takes back ("wait, actually") does not count.

    :param options: The forms of each option, such as ``(("A", "positive"), ("B", "negative"))``. Words are found in any
        case and spelling. Labels such as A and B may be in lower case where they cannot be an article; other single
        characters count as they are.
    :param strict: Only what the reply calls its answer counts, not the only option that it mentions.
    """
    forms = _forms(tuple(map(tuple, options)))
    is_long = len(reply) > 2 * LONGEST_END
    text = forms.spell(f"{reply[:LONGEST_END]}\n\n{reply[-LONGEST_END:]}" if is_long else reply)
    if all(len(form) == 1 for form in forms.options):
        # A small model repeats itself.
        text = re.sub(r"\b([^\W\d_])\1+\b", r"\1", text)
    text = without_continuation(text, forms.pattern)
    values, rest = found_json(text) if '"' in text or "'" in text else ([], text)
    texts = ["\n".join(_answers(value)) for value in values]
    if answers := [one for one in (_chosen(text, forms, 1 + strict) for text in texts) if one is not None]:
        return answers[-1] if len(set(answers)) == 1 or words.TURNS.search(rest) else None
    return _chosen(rest, forms, 1 + strict)


def rejects(reply: str, forms: Sequence[str]) -> bool:
    """Return True if a reply rejects one of these forms each time that it mentions one ("it is not A")."""
    own = _forms((tuple(forms),))
    found = _mentions(own.spell(reply), own)
    return bool(found) and all(one.is_rejected for one in found)


def without_continuation(text: str, answer: re.Pattern[str]) -> str:
    """Return a text up to the line after its first ``answer`` in which a base model goes on with another question."""
    first = answer.search(text)
    following = words.NEXT.search(text, first.end()) if first else None
    return text[: following.start()] if following else text


def _answers(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value that may be its answer."""
    if isinstance(value, tuple):
        value = [inner for key, inner in value if not words.REMARK_KEY.fullmatch(key)]
    if isinstance(value, list):
        for inner in value:
            yield from _answers(inner)
    elif isinstance(value, str | bool):
        yield str(value)


def _chosen(text: str, forms: _Forms, least: int) -> int | None:
    """Return the only option of the highest weight in a plain text, if that is at least ``least``."""
    text = _marked_up(text.replace("[x]", "✓").replace("[ ]", "✗"))
    first, mark = forms.pattern.search(text), re.search("[✗✓]", text)
    if first and mark and mark.start() > first.start():
        # Ticks and crosses come before or after all options.
        text = re.sub(" *✗", " is wrong.", re.sub(" *✓", " is correct.", text))
    found = _mentions(text, forms)
    _reject_offered(text, found)
    kept: list[_Mention] = []
    for one in found:
        if kept and one.weight and words.TURNS.search(text, kept[-1].stop, one.start):
            kept.clear()
        kept += [one] if one.weight else []
    weight = max((one.weight for one in kept), default=0)
    chosen = {one.option for one in kept if one.weight == weight}
    return chosen.pop() if len(chosen) == 1 and weight >= least else None


def _marked_up(text: str) -> str:
    """Return a text with words and lines instead of markup that has a meaning, and without other markup."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text


def _mentions(text: str, forms: _Forms) -> list[_Mention]:
    """Return the mentions of options, each with its weight."""
    text = words.AFFIRMS.sub(lambda match: " " * len(match[0]), text)
    matches = [match for match in forms.pattern.finditer(text) if _is_mention(text, match, forms.options)]
    found: list[_Mention] = []
    for match in matches[:_MOST] + matches[_MOST:][-_MOST:]:
        one = _Mention(forms.options[_key(match[0])], match.start(), match.end())
        gap = text[found[-1].stop : one.start] if found and found[-1].option == one.option else ""
        if re.fullmatch(r"[^\w\n]{1,4}", gap):
            # "A. positive" is one mention.
            found[-1].stop = one.stop
        else:
            found.append(one)
    last = 0
    for one, following in zip(found, [*(other.start for other in found[1:]), len(text)], strict=False):
        before = text[max(last, one.start - _AROUND) : one.start]
        after = text[one.stop : following][:_AROUND]
        clause = words.STOPS.split(before)[-1]
        rejected = words.REJECTED.match(after)
        if rejected and one is not found[-1] and not after[rejected.end() :].strip():
            # In "A nie B", the word between belongs to the option after it.
            rejected = None if words.REJECTS.search(after) else rejected
        one.is_rejected = bool(rejected or words.REJECTS.search(clause) or words.REJECTS_LABEL.search(before))
        one.weight = 0 if one.is_rejected else _weight(text, one, before, after, clause)
        last = one.stop
    return found


def _is_mention(text: str, match: re.Match[str], indexes: dict[str, int]) -> bool:
    """Return True unless a match is an article ("A vowel"), in a phrase ("no difference"), or a dash between words."""
    form, start = match[0], match.start()
    before, after = text[max(0, start - 2) : start], text[match.end() : match.end() + 30]
    if not form[0].isalnum() and len(form) == 1:
        if unicodedata.category(form) == "Pd" and before[-1:] == " " == after[:1]:
            return False
        begins = (before[-1:] or " ") in " \n\t\"'`*_([{$:/" or before[-1:] > "\u2fff"
        return begins and (after[:1] or " ") in " \n\t\"'`*_)]}$.,;:!?/"
    is_letter = re.fullmatch("[A-Za-z]", form)
    if (is_letter or form.casefold() == "no") and not words.AFTER_ANSWER.match(after):
        return False
    if not is_letter or form.isupper() or indexes.get(form.upper()) != indexes[form]:
        return not is_letter or before.casefold() != "n/"
    # A lower-case letter at the end may be the article of a reply that was cut off, unless a mark comes before it.
    lead = text[max(0, start - 8) : start].rstrip()[-1:]
    return (after[:1] or " ") != " " or not lead or lead in "\"'`*([:=>"


def _weight(text: str, one: _Mention, before: str, after: str, clause: str) -> int:
    left, right = text[: one.start][-_AROUND:], text[one.stop :][:_AROUND]
    sentence = _SENTENCE.split(left)[-1] + _SENTENCE.split(right)[0]
    if words.RIGHT.match(after) or not _LETTERS.search(sentence):
        return 2
    if words.ABOUT.match(after) or words.IF.search(clause):
        return 0
    is_first = words.EXPLAINED.match(after) and not _LETTERS.search(text, 0, one.start)
    return 2 if is_first or (words.CUE.search(before) and not words.FIRST.search(before)) else 1


def _reject_offered(text: str, found: Sequence[_Mention]) -> None:
    """Give no weight to what is joined to a rejected option, and to options among which none is chosen yet."""
    dropped: list[_Mention] = []
    offered: set[int] = set()
    for one, other in pairwise(found):
        gap = text[one.stop : other.start]
        is_or = words.OR.search(gap)
        if one.option == other.option:
            continue
        if re.search(r"(?<!vs)[.;!]\s|\A\s*\(\Z", gap) or not words.JOINED.fullmatch(gap):
            offered = set()
        elif one.is_rejected or other.is_rejected:
            # "neither A nor B", "A and B are wrong", but not "A, and B is wrong"
            dropped += [one, other] if is_or and (one.is_rejected or "," not in gap) else []
        elif other.option in offered and "," in gap:
            # "between A and B, A"
            offered = set()
        elif is_or or (one.weight and other.weight):
            offered |= {one.option, other.option}
            dropped += [one, other]
    defined = [one for one in found if one.weight and words.DEFINED.match(text, one.stop)]
    dropped += defined if len({one.option for one in defined}) > 1 else []
    for one in dropped:
        one.weight = 0


#: The name of a format after a code fence.
_FORMAT = re.compile(
    r"\A[ \t]*(?:text|txt|plain(?:text)?|json|yaml|markdown|md|python|html|xml|answer)[ \t]*\n(?=\s*\S)", re.I
)


def fenced(reply: str) -> str | None:
    """Return the text of the last code fence that has any, also of one that is not closed; None without one."""
    texts = (_FORMAT.sub("", text).strip() for text in reversed(reply.split("```")[1::2]))
    return next(filter(None, texts), None)


_ITEM = re.compile(
    r"^(?P<blank>[ \t>]*)[\"'“„*_]{0,4}(?:[(\[]?(?P<number>\d{1,3})(?:\\?[.):\]、](?!\d)"
    r"|[)\]]?\s*[-–—](?=\s))|[-•·–—‣◦+](?=\s)|\*(?!\*)|•)[*_]{0,2}\s*(?P<text>\S.*)",
    re.MULTILINE,
)
_INLINE = re.compile(r"(?<=\S)[ ,;]\s*\(?\d{1,2}[.)]\s+(?=\S)")
_FIELD = re.compile(r"[ \t]*[*_]{0,2}[^\W\d][\w /&-]{0,40}?[*_]{0,2}\s?[:：][*_]{0,2}\s?\S.*")


def listed(reply: str) -> list[str] | None:
    """Return the items of the list in a reply; an empty list if it says that there are none, None without a list.

    The items may be numbered, bulleted, lines with a label, cells of a table, values of JSON, or separated by commas.
    An item keeps its label ("city: Paris"), also if JSON or a table has it in a field of its own. Of several lists, the
    first counts, or the one after a correction.
    """
    text = _marked_up(unicodedata.normalize("NFKC", without_tokens(reply)))
    *_, corrected = [None, *words.CORRECTED.finditer(text)]
    items = _items(text[corrected.end() :], is_marked=True) if corrected else None
    return _items(text) if items is None else items


def _items(text: str, *, is_marked: bool = False) -> list[str] | None:
    """Return the items of a list; of one with marks or in JSON only, if ``is_marked``."""
    for value in found_json(text)[0]:
        keys = [key for key, _ in value] if isinstance(value, tuple) else []
        # An object with a message only is no list.
        if not keys or not all(map(words.REMARK_KEY.fullmatch, keys)):
            return [item for item in _records(value) if item]
    text = without_continuation(text, _ITEM).replace("```", "\n")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    items = _rows(lines) or _marked(lines)
    if not items and not is_marked:
        fields = [line for line in lines if _FIELD.fullmatch(line)]
        listing = next(filter(None, map(words.LISTED.fullmatch, lines)), None)
        parts = re.split(r"[,;、]\s+(?:and )?|\s+and\s+", listing["items"]) if listing else []
        items = [_trimmed(part) for part in (fields if len(fields) > 1 else parts)]
    if items:
        return [] if len(items) == 1 and words.NONE.fullmatch(items[0]) else items
    return [] if not is_marked and any(map(words.NONE.fullmatch, lines)) else None


def _rows(lines: Sequence[str]) -> list[str]:
    """Return the rows of a table as items."""
    rows = [line.strip(" |").split("|") for line in lines if line.lstrip().startswith("|")]
    if len(rows) < 3 or not set("".join(rows[1])) <= set("-: "):
        return []
    return [item for row in rows[2:] for item in _records(tuple(zip(rows[0], row, strict=False)))]


def _marked(lines: Sequence[str]) -> list[str]:
    """Return the items of the first numbered or bulleted list, up to another heading or another number 1."""
    items: list[str] = []
    first = None
    for line in lines:
        match = _ITEM.fullmatch(line)
        if match is None and items and line.endswith((":", "：")):
            break
        if match is None or _trimmed(match["text"]).endswith(":"):
            continue
        first = first or match
        if items and match["number"] == "1":
            break
        # What is deeper, or has a bullet in a numbered list, is about an item.
        if match["number"] or not (first["number"] or len(match["blank"]) > len(first["blank"])):
            items.append(_trimmed(match["text"]))
    if len(items) > 1:
        return items
    found = re.search(r"(?:^|\s)\(?1[.)]\s+(\S.*)", "\n".join(lines))
    parts = _INLINE.split(found[1]) if found else []
    return [_trimmed(part) for part in parts] if len(parts) > 1 else items


def _records(value: Any) -> list[str]:
    """Return the items in a JSON value, or in a row of a table."""
    if isinstance(value, list):
        return [item for inner in value for item in _records(inner)]
    if not isinstance(value, tuple):
        return [_trimmed(value)] if isinstance(value, str) else []
    members = [(key.strip(" *_"), inner) for key, inner in value]
    members = [(key, inner) for key, inner in members if not words.REMARK_KEY.fullmatch(key)]
    names = [inner for key, inner in members if words.NAME_KEY.fullmatch(key) and isinstance(inner, str)]
    kinds = [inner for key, inner in members if words.KIND_KEY.fullmatch(key) and isinstance(inner, str)]
    if names and len(members) > 1:
        return [": ".join(map(_trimmed, [*kinds[:1], names[0]]))]
    if len(members) == 1 and not isinstance(members[0][1], str):
        return _records(members[0][1])
    return [
        item if re.fullmatch(r"\W*|\w*?\W?\d+", key) else f"{key}: {item}"
        for key, inner in members
        for item in _records(inner)
    ]


def _trimmed(item: str) -> str:
    """Return an item without emphasis, quotation marks around it, and the mark that ends it."""
    item = re.sub(r"\*\*|__|`", "", item).strip(" \t*_").rstrip(";, ")
    return re.sub(r"\A(?:[\"“„](.*)[\"”“]|'(.*)')\Z", r"\1\2", item)


#: Characters that a segmentation keeps: of scripts without spaces, and marks that end a sentence.
_CONTENT = "\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff。｡！？!?"
_ENDS = "。｡．.！!？?…"
_SEPARATOR = re.compile(r"[\s/\\|｜／│┃‖，,、;；:：.．·•・‧∙\-－–—→⇒⟶>＞=＝+＋_＿▁#＃&＆^~～]|\*{4}")
_BRACKET = re.compile(r"[\"'“”‘’「」『』《》〈〉【】〔〕()（）\[\]［］{}｛｝<＜`]")
#: An explanation after a word, or the Chinese name of a part of speech.
_GLOSS = re.compile(
    rf"(?<=[{_CONTENT}*`])\s?[（(\[【<][^（）()\[\]【】<>\n]{{1,30}}[)）\]】>]"
    r"|(?<=[\s/|:：\-–—_\"'，,])[\u4e00-\u9fff]{0,4}(?:词|标点|符号|人名|地名)(?=[\s/|,，;；\"'。)）\]}]|$)"
)


def segmented(reply: str, sentence: str) -> list[str] | None:
    """Return the words into which a reply cuts a sentence; None if it has no or several segmentations of it.

    Words may be separated by spaces, lines, slashes, bars or commas, and may be quoted, numbered or tagged. The reply
    may introduce, repeat or explain the segmentation, and leave out the final mark. The sentence's own whitespace is
    no boundary and left out. A sentence with other characters or without boundaries is not read.
    """
    whole = "".join(sentence.split())
    core = whole.rstrip(_ENDS) or whole
    own = frozenset(accumulate(map(len, sentence.split())))
    text = without_tokens(reply).replace("✔", "✓").replace("✅", "✓").replace("❌", "✗")
    for version in (text, _GLOSS.sub("()", text)) if core else ():
        found = [cut for cut in _cuts(version, core) if cut.called >= 0]
        cuts = [cut for cut in found if cut.edges - own] or [cut for cut in found if cut.has_final_word]
        for group in (cuts, [cut for cut in cuts if cut.called]):
            if len({cut.edges for cut in group}) == 1:
                is_joined = group[-1].has_final_word is False
                edges = {*group[-1].edges, *((len(whole),) if is_joined else (len(core), len(whole)))}
                return [whole[a:b] for a, b in pairwise([0, *sorted(edges)])]
    return None


class _Cut(NamedTuple):
    """One segmentation of a sentence, and whether the reply calls it right (1), wrong (-1) or neither (0)."""

    edges: frozenset[int]
    #: The final mark is a word of its own; None if the reply leaves it out.
    has_final_word: bool | None
    called: int


def _cuts(text: str, core: str) -> Iterator[_Cut]:
    """Yield the occurrences of a sentence in a text, whatever is between its characters."""
    content = f"{_CONTENT}{re.escape(core)}"
    last = 0
    for match in re.finditer(f"([^{content}]{{0,80}})".join(map(re.escape, core)), text):
        edges = _edges(match.groups())
        before = text[max(last, match.start() - 80) : match.start()]
        after = text[match.end() : match.end() + 80]
        last = match.end()
        name = re.split(r"[.;!?,\n]", plain(before[-40:]).rstrip(': \n"'))[-1]
        comment = plain(after[:15]).lstrip(" .([")
        is_right = words.CALLED_RIGHT.search(name) is not None or comment.startswith("✓")
        is_wrong = any(one.search(name) for one in (words.REJECTS, words.REJECTS_LABEL, words.FIRST))
        # A word that is separated like the sentence's own words was added to it.
        separators = {"", *(re.sub(r"\w+", "x", gap) for gap in match.groups() if _separates(gap))}
        left = re.search(f"(?P<mark>[{content}])(?P<gap>[^{content}]*)\\Z", before)
        right = re.match(f"(?P<gap>[^{content}]*)(?P<mark>[{content}])", after)
        sides = [one for one in (left, right) if one and one["mark"] not in _ENDS]
        is_longer = any(re.sub(r"\w+", "x", one["gap"]) in separators for one in sides)
        if edges is not None and (is_right or not is_longer):
            final = re.match(f"([^{content}]*)[。｡！？!?…]|([\\s/|,，、\"']*)[.．](?!\\w)", after)
            has_final_word = bool(_separates(final[1] or final[2] or "")) if final else None
            called = -1 if is_wrong or words.REJECTED.match(comment) else int(is_right)
            yield _Cut(edges, has_final_word, called)


def _edges(gaps: Sequence[str]) -> frozenset[int] | None:
    """Return the boundaries among the gaps between a sentence's characters; None if no segmentation has such gaps."""
    kinds = [_separates(gap) for gap in gaps]
    edges = frozenset(place for place, kind in enumerate(kinds, 1) if kind)
    bare = [gap for gap, kind in zip(gaps, kinds, strict=True) if kind and not re.search("[A-Za-z0-9]", gap)]
    commas = sum(re.search("[,，、;；:：]", gap) is not None for gap in bare)
    # Commas at some places only, or at few, were added to the sentence.
    is_changed = 0 < commas < len(bare) or (commas > 0 and len(edges) + 1 < 0.3 * (len(gaps) + 1))
    return None if None in kinds or is_changed else edges


def _separates(gap: str) -> bool | None:
    """Return True if a gap is a word boundary, False if it is not, None if no segmentation has it."""
    brackets = len(_BRACKET.findall(gap))
    if _SEPARATOR.search(gap) or brackets > 1:
        return True
    return None if brackets or re.search("[A-Za-z0-9]", gap) else False
