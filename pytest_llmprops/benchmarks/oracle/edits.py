"""Small changes of a sentence that change what it says: known negatives for pairs without labels.

Each edit changes one thing: a number, who does something to whom, or a negation. They are made from the
sentence's tree, and only where the result is English and certainly says something else. Most sentences lack
some of the edits.

- A number stands for an amount, a year or a day. Not changed: amounts called approximate, times of day, ordinals,
  numbers in names, and those next to a hyphen. Of an amount in digits, the first digit changes, because 400 and 401
  may both be about 400; of a year, the last one.
- Roles are swapped if a verb is in ``_PERSONAL`` and both phrases are of one class: people, organisations,
  animals, or names of unknown kind. The verb must agree with both, and nothing in the phrases may refer elsewhere.
- The auxiliary verb of the main clause, or of what somebody says, is negated; without one, "did not" is added
  before a verb in ``_PAST``. Not with another negation, an adverb next to the verb, a quantified subject, "may", or
  two verbs that would share the negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.neutral_edits import MONTHS
from pytest_llmprops.benchmarks.oracle.phrases import NUMBER_WORDS, Argument, arguments
from pytest_llmprops.benchmarks.oracle.trees import Node, Parsed, Span, Tree

KINDS = ("numbers", "roles", "negation")
_APPROXIMATE = re.compile(
    r"\b(?:about|around|nearly|almost|roughly|some|approximately|circa|over|under|(?:more|less|fewer|other|rather)"
    r" than|close to|an estimated|estimated|up to|as many as|as much as|just|below|above)\s*\W?\Z",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?\Z")
_YEAR = re.compile(r"1[0-9]\d\d|20\d\d")
_BEFORE_YEAR = re.compile(r"(?:in|since|until|till|by|before|after|of|from|during)\Z")
_MONTH = re.compile(rf"(?:{MONTHS}|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?)\Z")
_TENS = frozenset(
    [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ]
)  # fmt: skip
_FRACTIONS = re.compile(r"(?:half|halves|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?)\Z")
_AMOUNT_TAGS = ("NN", "JJ", "CD", "VBN")
_NEGATIVE = frozenset(
    [
        "no", "not", "n't", "n’t", "never", "nobody", "nothing", "none", "nor", "neither", "nowhere", "hardly",
        "barely", "scarcely", "seldom", "rarely", "few", "little", "only", "cannot", "unless", "without", "any",
        "either", "too",
    ]
)  # fmt: skip
_QUANTIFIERS = frozenset(
    [
        "all", "both", "every", "each", "some", "many", "most", "several", "more", "half", "twice", "everyone",
        "everybody", "everything", "someone", "somebody", "something", "nearly", "almost", "at", "enough",
        "even", "another",
    ]
)  # fmt: skip
_BE = frozenset({"are", "is", "was", "were"})
_AUXILIARIES = _BE | {
    "can",
    "could",
    "did",
    "do",
    "does",
    "had",
    "has",
    "have",
    "must",
    "shall",
    "should",
    "will",
    "would",
}
#: base and past of verbs that "did not", "does not" or "do not" can precede
_VERBS_WITH_PAST = (
    "accuse:accused admit:admitted advise:advised agree:agreed apologise:apologised approve:approved ask:asked "
    "award:awarded ban:banned beat:beat begin:began bequeath:bequeathed blame:blamed burn:burned buy:bought "
    "call:called cancel:cancelled carry:carried change:changed climb:climbed close:closed collapse:collapsed "
    "collect:collected come:came compare:compared concede:conceded continue:continued copy:copied cost:cost "
    "count:counted cover:covered cross:crossed cut:cut damage:damaged decline:declined defeat:defeated deny:denied "
    "destroy:destroyed die:died disappear:disappeared discover:discovered dismiss:dismissed drain:drained draw:drew "
    "drop:dropped earn:earned emigrate:emigrated encode:encoded end:ended expect:expected face:faced fall:fell "
    "file:filed fine:fined flood:flooded fold:folded force:forced freeze:froze gain:gained give:gave go:went "
    "grant:granted grow:grew hang:hung help:helped hold:held host:hosted include:included increase:increased "
    "introduce:introduced issue:issued jump:jumped keep:kept kill:killed last:lasted leave:left lend:lent link:linked "
    "lose:lost lower:lowered map:mapped mark:marked match:matched meet:met merge:merged miss:missed move:moved "
    "name:named nest:nested open:opened order:ordered overturn:overturned paint:painted pass:passed pay:paid "
    "plant:planted play:played post:posted promise:promised propose:proposed protect:protected prove:proved put:put "
    "queue:queued raise:raised reach:reached read:read recall:recalled receive:received refuse:refused "
    "register:registered reject:rejected release:released reopen:reopened resign:resigned return:returned ride:rode "
    "rise:rose row:rowed run:ran save:saved score:scored seize:seized select:selected sell:sold send:sent "
    "sentence:sentenced share:shared show:showed sign:signed sing:sang slip:slipped spare:spared speak:spoke "
    "spend:spent stand:stood start:started stay:stayed step:stepped store:stored strike:struck study:studied "
    "suspend:suspended swim:swam take:took teach:taught thank:thanked threaten:threatened train:trained "
    "translate:translated turn:turned urge:urged use:used visit:visited vote:voted wait:waited walk:walked "
    "want:wanted win:won withdraw:withdrew work:worked write:wrote "
)
_PAST = dict(pair.split(":") for pair in _VERBS_WITH_PAST.split())
_BASES = {past: base for base, past in _PAST.items()}
#: next to the negation, they would change what it denies
_UNDENIED = frozenset(
    {"some", "several", "all", "both", "one", "another", "half", "already", "still", "twice"}
)
_REPORTING = re.compile(
    r"(?:say|says|said|told|tells?|announced|reported|found|claims?|claimed|warned|believes?|believed)\Z"
)
#: verbs of which people, organisations or animals are the subject as well as the object, and that are not symmetric
_PERSONAL = re.compile(
    r"(?:accus|admir|advis|challeng|chas|criticis|criticiz|denounc|hat|hir|introduc|invit|lov|nam|outliv|persuad|prais"
    r"|replac|rescu|sav|su|trust|urg)(?:e|es|ed|ing)\Z"
    r"|(?:acquire|blame|bribe)[sd]?\Z"
    r"|(?:arrest|assist|attack|defend|employ|follow|greet|help|insult|interview|kidnap|kill|kiss|mock|murder|outbid"
    r"|push|remind|reward|succeed|support|thank|threaten|train|visit|warn|welcome|wound|defeat|overtak|outvot)"
    r"(?:s|es|ed|ing|en)?\Z"
    r"|(?:beats?|beating|beaten|bought|buys?|overtook|overtaken|paid|pays?|shoots?|shot|taught|teach|teaches|tells?|told"
    r"|robbed|robs?)\Z"
)
#: after them, "of" or "for" with what follows belongs to the verb
_WITH_OF = re.compile(r"(?:accus|blam|prais|criticis|criticiz|thank|remind|warn)\w+\Z")
_PEOPLE = frozenset(
    [
        "actor", "actress", "adviser", "ambassador", "archaeologist", "artist", "astronomer", "athlete",
        "author", "boy", "brother", "buyer", "captain", "champion", "chancellor", "child", "coach", "colleague",
        "commander", "conductor", "critic", "customer", "daughter", "defender", "director", "doctor", "driver",
        "editor", "employee", "engineer", "executive", "expert", "farmer", "father", "firefighter", "fisherman",
        "friend", "gardener", "geologist", "girl", "goalkeeper", "governor", "guard", "guest", "guide",
        "gunman", "husband", "inspector", "investigator", "journalist", "judge", "king", "lawmaker", "lawyer",
        "leader", "man", "manager", "mayor", "miner", "minister", "monk", "mother", "neighbour", "neighbor",
        "nurse", "officer", "official", "organiser", "organizer", "owner", "painter", "parent", "passenger",
        "patient", "people", "pianist", "pilot", "player", "poet", "president", "priest", "prince", "princess",
        "spokesman", "spokeswoman", "prisoner", "professor", "prosecutor", "publisher", "pupil", "queen",
        "referee", "reporter", "researcher", "resident", "sailor", "scientist", "secretary", "senator",
        "sister", "soldier", "son", "student", "surgeon", "suspect", "swimmer", "teacher", "teenager", "thief",
        "tourist", "trainer", "treasurer", "victim", "visitor", "volunteer", "voter", "waiter", "wife",
        "witness", "woman", "worker", "challenger",
    ]
)  # fmt: skip
_ORGANISATIONS = frozenset(
    [
        "agency", "airline", "army", "association", "authority", "bank", "bureau", "chain", "charity", "club",
        "college", "commission", "committee", "company", "corp", "corp.", "corporation", "council", "court",
        "department", "federation", "firm", "foundation", "government", "group", "inc", "inc.", "institute",
        "ltd", "ltd.", "ministry", "motors", "museum", "parliament", "party", "press", "regulator", "society",
        "steel", "team", "union", "university",
    ]
)  # fmt: skip
_ANIMALS = frozenset(
    [
        "bear", "bird", "cat", "cow", "dog", "fox", "horse", "lion", "mouse", "rat", "sheep", "wolf",
    ]
)  # fmt: skip
_PLURALS = {
    "children": "child",
    "men": "man",
    "women": "woman",
    "thieves": "thief",
    "mice": "mouse",
    "wolves": "wolf",
}
_TITLES = re.compile(
    r"(?:Mr|Mrs|Ms|Dr|Sen|Gov|Gen|Rep|Lt|Col|Sgt)\.?\Z|(?:President|Minister|Professor|Judge|Captain|Colonel|General"
    r"|Lieutenant|Sister|Brother|King|Queen|Prince|Princess|Senator|Governor|Mayor|Bishop|Emperor|Countess)\Z"
)


def minimal_edits(sentence: Parsed) -> Mapping[str, str]:
    """Return the edited sentences by kind, for the kinds that the sentence allows."""
    edits = {"numbers": _other_number(sentence), "roles": _roles(sentence), "negation": _negation(sentence)}
    return {kind: text for kind, text in edits.items() if text is not None}


# ---- numbers


def _other_number(sentence: Parsed) -> str | None:
    """Return the sentence with its first number that can be changed changed."""
    for token, word in enumerate(sentence.tree.tokens):
        if word.lower() in NUMBER_WORDS:
            other = _other_word(sentence.tree, token)
        elif _DIGITS.match(word):
            other = _other_digits(sentence.tree, token)
        else:
            continue
        if other is not None and not _APPROXIMATE.search(sentence.text[: sentence.spans[token][0]]):
            return _replaced(sentence, (token, token + 1), other)
    return None


def _other_word(tree: Tree, token: int) -> str | None:
    word, before, after = tree.tokens[token], _token(tree, token - 1), _token(tree, token + 1)
    place, is_unit = (
        NUMBER_WORDS.index(word.lower()),
        before == "-" and _token(tree, token - 2).lower() in _TENS,
    )
    is_first = token == 0
    # "Pier Nine" and "Two Towers" are names, and so is "Number two".
    is_name = (
        (word[0].isupper() and not is_first) or after[:1].isupper() or (before[:1].isupper() and token > 1)
    )
    if is_name or after == "-" or (before == "-" and not is_unit) or _FRACTIONS.match(after):
        return None
    # Without a noun, it may be a time of day.
    if not is_unit and not _tag(tree, token + 1).startswith(_AMOUNT_TAGS) and after.lower() != "of":
        return None
    top = NUMBER_WORDS.index("nine") if is_unit else len(NUMBER_WORDS) - 1
    used = {t.lower() for t in tree.tokens}
    # "two cases, one of them …, the other …"
    if word.lower() == "two" and used & {"one", "other", "both"}:
        return None
    for other in (place + 1, place - 1):
        if 0 <= other <= top and NUMBER_WORDS[other] not in used:
            return NUMBER_WORDS[other].capitalize() if is_first else NUMBER_WORDS[other]
    return None


def _other_digits(tree: Tree, token: int) -> str | None:
    word, before, after = tree.tokens[token], _token(tree, token - 1), _token(tree, token + 1)
    is_year = bool(_YEAR.fullmatch(word) and (_BEFORE_YEAR.match(before.lower()) or _MONTH.match(before)))
    is_day = bool(_MONTH.match(before) or _MONTH.match(after)) and len(word) < 3
    if is_day:
        other = str(int(word) + (1 if int(word) < 28 else -1))
    elif is_year:
        other = word[:-1] + _next(word[-1])
    else:
        has_unit = after in ("%", "percent", "million", "billion", "trillion") or before in ("$", "£", "€")
        is_amount = has_unit or _tag(tree, token + 1).startswith(("NNS", "JJ", "CD"))
        is_name = (before[:1].isupper() and token > 1) or after[:1].isupper()
        is_whole_share = after in ("%", "percent") and word[:3] in ("100",)
        # "1 day" would need a plural.
        if not is_amount or is_name or is_whole_share or (word == "1" and not has_unit):
            return None
        other = _next(word[0]) + word[1:]
    # "13 to 14 cents" and "2-1" are one statement.
    is_joined = {before, after} & {"-", "–", "/", ":"} or "to" in tree.tokens[token + 1 : token + 3]
    return None if (is_joined and not is_day) or other in tree.tokens else other


def _next(digit: str) -> str:
    return "8" if digit == "9" else str(int(digit) + 1)


def _token(tree: Tree, place: int) -> str:
    return tree.tokens[place] if 0 <= place < len(tree.tokens) else ""


def _tag(tree: Tree, place: int) -> str:
    return tree.tags[place] if 0 <= place < len(tree.tags) else ""


# ---- negation


def _negation(sentence: Parsed) -> str | None:
    """Return the sentence with its main clause negated, or the clause that reports what somebody says."""
    tree = sentence.tree
    words = {token.lower() for token in tree.tokens}
    if words & _NEGATIVE or tree.tokens[-1] in ("?", "??") or "S" not in tree.root.label.split("+"):
        return None
    for clause in _main_clauses(tree):
        place = _auxiliary(tree, clause)
        if place is None and (denied := _denied(tree, clause)) is not None:
            return _replaced(sentence, (denied[0], denied[0] + 1), denied[1])
        if place is not None:
            break
    else:
        return None
    end = sentence.spans[place][1]
    joint = "" if tree.tokens[place].lower() == "can" else " "
    return f"{sentence.text[:end]}{joint}not{sentence.text[end:]}"


def _main_clauses(tree: Tree) -> Iterator[Node]:
    """Yield the main clause, the first of several, or if it is about what somebody says, the clause that says it."""
    clause = tree.root
    first = clause.children[0]
    if any(child.label == "CC" for child in clause.children) and "S" in first.label.split("+"):
        clause = first
    yield clause
    predicate = _predicate(clause)
    if (
        predicate is None
        or predicate.children == ()
        or not _REPORTING.match(tree.tokens[predicate.start].lower())
    ):
        return
    for child in (*clause.children, *predicate.children):
        inner = child
        if "SBAR" in child.label.split("+") and child.children and tree.tokens[child.start].lower() == "that":
            inner = child.children[-1]
        if "S" in inner.label.split("+"):
            yield inner


def _predicate(clause: Node) -> Node | None:
    return next((child for child in clause.children if "VP" in child.label.split("+")), None)


def _auxiliary(tree: Tree, clause: Node) -> int | None:
    """Return the token of the clause's auxiliary verb, if ``not`` can follow it."""
    predicate = _predicate(clause)
    if predicate is None or not predicate.children or predicate.children[0].children:
        return None
    place = predicate.start
    word, following = tree.tokens[place].lower(), _tag(tree, place + 1)
    if _subject(tree, clause) is None or word not in _AUXILIARIES or _token(tree, place + 1) in ("up", "out"):
        return None
    fits = (
        following.startswith(("VB", "JJ", "DT", "NN", "IN", "CD", "PRP"))
        if word in _BE
        else following.startswith("VB")
    )
    return place if fits and not _is_shared(predicate) else None


def _denied(tree: Tree, clause: Node) -> tuple[int, str] | None:
    """Return the token of a clause's only verb and its negated form with "did", "does" or "do"."""
    predicate, subject = _predicate(clause), _subject(tree, clause)
    if predicate is None or subject is None or subject.end != predicate.start or _is_shared(predicate):
        return None
    verb, tag = tree.tokens[predicate.start], tree.tags[predicate.start]
    is_leaf = not predicate.children or not predicate.children[0].children
    if (
        not is_leaf
        or _REPORTING.match(verb)
        or _UNDENIED & {token.lower() for token in tree.tokens[predicate.start :]}
    ):
        return None
    base = {"VBD": _BASES.get(verb), "VBP": verb, "VBZ": _base_of(verb)}.get(tag)
    if base not in _PAST:
        return None
    return predicate.start, f"{ {'VBD': 'did', 'VBP': 'do', 'VBZ': 'does'}[tag] } not {base}"


def _base_of(verb: str) -> str:
    """Return the base of a verb in the third person."""
    endings = (
        verb[:-3] + "y" if verb.endswith("ies") else "",
        verb[:-2] if verb.endswith("es") else "",
        verb[:-1],
    )
    return next((base for base in endings if base in _PAST), "")


def _subject(tree: Tree, clause: Node) -> Node | None:
    """Return the subject of a clause; None if "not" after it may not deny the whole."""
    predicate = _predicate(clause)
    subjects = [
        c
        for c in clause.children
        if "NP" in c.label.split("+") and predicate is not None and c.end <= predicate.start
    ]
    if not subjects:
        return None
    subject = subjects[-1]
    opening = {tree.tokens[t].lower() for t in range(subject.start, min(subject.end, subject.start + 3))}
    return None if opening & _QUANTIFIERS or tree.tags[subject.start] == "EX" else subject


def _is_shared(predicate: Node) -> bool:
    """Return True if several verbs follow the auxiliary verb, which ``not`` may or may not negate."""
    while True:
        if any(child.label == "CC" for child in predicate.children):
            return True
        inner = _predicate(predicate)
        if inner is None:
            return False
        predicate = inner


# ---- roles


def _roles(sentence: Parsed) -> str | None:
    """Return the sentence with the subject and the object of a verb swapped."""
    phrases = arguments(sentence.tree)
    for subject in phrases:
        for other in phrases:
            if subject.verb == other.verb and {subject.role, other.role} == {"agent", "patient"}:
                text = _swapped(sentence, subject, other)
                if text is not None:
                    return text
    return _other_direction(sentence)


def _other_direction(sentence: Parsed) -> str | None:
    """Return the sentence with the names in "from A to B" or "in A than in B" swapped."""
    tree = sentence.tree
    for start, word in enumerate(tree.tokens):
        one = _name_after(tree, start)
        if one is None or word.lower() not in ("from", "in"):
            continue
        between = tree.tokens[one[1] : one[1] + (1 if word.lower() == "from" else 2)]
        if between not in (("to",), ("into",), ("than", "in")):
            continue
        two = _name_after(tree, one[1] + len(between) - 1)
        names = [sentence.phrase(span) for span in (one, two) if span is not None]
        # "famous from Durban to Toronto" has no direction.
        if (
            two is not None
            and _tag(tree, start - 1) != "JJ"
            and all(sentence.text.count(n) == 1 for n in names)
        ):
            swapped = _replaced(sentence, two, sentence.phrase(one))
            return (
                swapped[: sentence.spans[one[0]][0]]
                + sentence.phrase(two)
                + swapped[sentence.spans[one[1] - 1][1] :]
            )
    return None


def _name_after(tree: Tree, place: int) -> Span | None:
    """Return the name right after a token. Not if it may go on, or is a day or a month."""
    end = place + 1
    while (
        _tag(tree, end).startswith("NNP")
        and not _MONTH.match(tree.tokens[end])
        and not tree.tokens[end].endswith("day")
    ):
        end += 1
    return (
        (place + 1, end)
        if end > place + 1 and _tag(tree, end) not in ("POS", "CD", ",", "CC", "NN", "NNS")
        else None
    )


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A phrase whose role can be swapped."""

    span: Span
    entity_class: str
    is_plural: bool


def _swapped(sentence: Parsed, subject: Argument, other: Argument) -> str | None:
    tree, verb = sentence.tree, subject.verb
    if other.span[0] < verb or not _PERSONAL.match(tree.tokens[verb].lower()):
        return None
    one, two = _phrase(tree, subject.span), _phrase(tree, other.span, tree.tokens[verb].lower())
    if one is None or two is None or one.entity_class != two.entity_class:
        return None
    # Between the subject and the verb, there are only auxiliary verbs; after the verb, at most "over" or "by".
    between = range(one.span[1], verb)
    is_direct = all(tree.tags[t].startswith(("MD", "VB")) for t in between)
    gap = [tree.tokens[t].lower() for t in range(verb + 1, two.span[0])]
    finite = tree.tokens[one.span[1]].lower()
    is_fixed = _tag(tree, one.span[1]) == "MD" or (_tag(tree, one.span[1]) == "VBD" and finite not in _BE)
    following = _tag(tree, two.span[1])
    if (
        not is_direct
        or gap not in ([], ["over"], ["by"])
        or (one.is_plural != two.is_plural and not is_fixed)
        or not (following in ("", "IN", "TO", ".", ",", "CC") or following == "RB")
        or (_token(tree, two.span[1]) == "," and tree.tags[two.span[1] + 1 : two.span[1] + 2] != ("CC",))
    ):
        return None
    moved, risen = sentence.phrase(two.span), sentence.phrase(one.span)
    if moved.casefold() == risen.casefold():
        return None
    if one.span[0] == 0:
        if tree.tags[0] in ("DT", "NN", "NNS"):
            risen = risen[0].lower() + risen[1:]
        moved = moved[0].upper() + moved[1:]
    swapped = _replaced(sentence, two.span, risen)
    start, end = sentence.spans[one.span[0]][0], sentence.spans[one.span[1] - 1][1]
    return swapped[:start] + moved + swapped[end:]


def _phrase(tree: Tree, span: Span, verb: str = "") -> _Phrase | None:
    """Return a phrase with its entity class; None if in doubt.

    :param verb: its verb, if it is the object.
    """
    node = next((n for n in tree.nodes if n.start == span[0] and n.end >= span[1]), None)
    if node is None:
        return None
    while node.end > span[1]:
        node = node.children[0]
    base = node
    while base.children and "NP" in base.children[0].label.split("+") and base.children[0].children:
        base = base.children[0]
    has_more = base.end < node.end
    if has_more and "PP" in node.children[1].label.split("+"):
        preposition = tree.tokens[base.end].lower()
        if _WITH_OF.match(verb) or (tree.tags[base.end - 1].startswith("NNP") and preposition != "of"):
            node = base
        elif verb:
            # It may belong to the verb.
            return None
    tokens = range(node.start, node.end)
    tags, words = {tree.tags[t] for t in tokens}, [tree.tokens[t] for t in tokens]
    if tags & {"PRP", "PRP$", "POS", "CD", "EX", ","} or tree.tags[base.start] not in (
        "DT",
        "NN",
        "NNS",
        "NNP",
        "NNPS",
    ):
        return None
    if tree.tags[base.start] == "DT" and words[0].lower() not in ("the", "a", "an"):
        return None
    head, tag = tree.tokens[base.end - 1], tree.tags[base.end - 1]
    kind = _class_of(head, tag, [tree.tokens[t] for t in range(base.start, base.end)])
    is_plural = tag in ("NNS", "NNPS") or any(tree.tags[t] == "CC" for t in range(base.start, base.end))
    return None if kind is None else _Phrase((node.start, node.end), kind, is_plural)


def _class_of(head: str, tag: str, words: Sequence[str]) -> str | None:
    noun = head.lower()
    singular = _PLURALS.get(
        noun, noun if noun in _PEOPLE | _ORGANISATIONS | _ANIMALS else noun.removesuffix("s")
    )
    if tag.startswith("NNP"):
        if any(_TITLES.match(word) or word in _PEOPLE for word in words):
            return "person"
        return "organisation" if singular in _ORGANISATIONS else "name"
    for name, nouns in (("person", _PEOPLE), ("organisation", _ORGANISATIONS), ("animal", _ANIMALS)):
        if singular in nouns:
            return name
    return None


def _replaced(sentence: Parsed, span: Span, text: str) -> str:
    start, end = sentence.spans[span[0]][0], sentence.spans[span[1] - 1][1]
    return sentence.text[:start] + text + sentence.text[end:]
