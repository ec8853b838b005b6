"""The spellings of an item's answers that a reply may use: inflected, without accents, in either script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.function_words import is_function_word
from pytest_llmprops.benchmarks.homophones.normal import HAN, fold, plain

# Regular inflected forms of an answer, and the irregular ones of frequent English words.
#
# A model that explains "driver" may write "drivers"; that is the same word. Only forms of the same word are
# made: no derived words ("driver" does not give "driving"), and no gender change of a Spanish noun that gives
# another noun ("libro" does not give "libra"). The forms are lists to look up in a reply, so some of them are
# not words.

_IRREGULAR = """
be am is are was were been being|become became|begin began begun|bend bent|bet|bind bound|bite bit bitten|
bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|burn burnt|buy bought|
catch caught|choose chose chosen|come came|creep crept|cut|deal dealt|dig dug|do does did done|draw drew drawn|
dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|
find found|flee fled|fly flew flown|forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|
freeze froze frozen|get got gotten|give gave given|go goes went gone|grow grew grown|hang hung|have has had|
hear heard|hide hid hidden|hit|hold held|hurt|keep kept|know knew known|lay laid|lead led|leap leapt|learn learnt|
leave left|lend lent|let|lie lay lain|lose lost|make made|mean meant|meet met|pay paid|put|quit|read|ride rode ridden|
ring rang rung|rise rose risen|run ran|say said|see saw seen|seek sought|sell sold|send sent|set|sew sewn|
shake shook shaken|shine shone|shoot shot|show shown|shut|sing sang sung|sink sank sunk|sit sat|sleep slept|
slide slid|sow sown|speak spoke spoken|spend spent|spin spun|spread|spring sprang sprung|stand stood|
steal stole stolen|stick stuck|sting stung|strike struck|swear swore sworn|sweep swept|swim swam swum|
swing swung|take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown|
understand understood|wake woke woken|wear wore worn|weave wove woven|weep wept|win won|write wrote written|
man men|woman women|child children|person people|foot feet|tooth teeth|goose geese|mouse mice|louse lice|ox oxen|
knife knives|wife wives|life lives|leaf leaves|wolf wolves|calf calves|half halves|shelf shelves|thief thieves|
loaf loaves|scarf scarves|elf elves|hoof hooves|bacterium bacteria|cactus cacti|policeman policemen|
policewoman policewomen|fireman firemen|fisherman fishermen|postman postmen
"""
_GROUPS = {group.split()[0]: tuple(group.split()[1:]) for group in "".join(_IRREGULAR.split("\n")).split("|")}
_SINGULAR = {plural: noun for noun, (plural, *_) in list(_GROUPS.items())[-27:] if plural}
_PLURAL_NOUNS = """
glasses spectacles clothes news goods customs arms means pants thanks species series physics maths
"""
#: Plurals whose singular is another word.
_ONLY_PLURAL = frozenset(_PLURAL_NOUNS.split())
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh)$")
_SHORT_VOWEL = re.compile(r"^[^aeiou]*(?:qu)?[aeiou][bdfgklmnprtvz]$")
_SPELLINGS = ((r"our$", "or"), (r"or$", "our"), (r"ise$", "ize"), (r"ize$", "ise"), (r"yse$", "yze"),
              (r"tre$", "ter"), (r"ter$", "tre"), (r"ogue$", "og"), (r"([^l])l(ing|ed|er)$", r"\1ll\2"),
              (r"ll(ing|ed|er)$", r"l\1"), (r"^grey$", "gray"), (r"^gray$", "grey"))  # fmt: skip

_GENDERED = """
abuelo alumno amigo abogado brujo cerdo chico ciervo cocinero conejo cuñado enfermero esposo gato hermano
hijo hermoso lobo maestro médico mono muchacho músico nieto niño novio oso pájaro payaso perro primo reo suegro
tío vecino viudo zorro alto amarillo bajo barato blanco bonito bueno caro corto duro enfermo entero feo flaco
fresco frío gordo guapo largo limpio listo loco lleno malo mismo moreno mucho muerto negro nuestro nuevo otro
pequeño poco propio quieto rápido raro rico rojo rubio sano seco serio solo sucio todo tonto tranquilo último
único vacío viejo vivo
"""
#: Beings and adjectives: their feminine is the same word.
_ANIMATE = frozenset(_GENDERED.split())
_ADJECTIVE = re.compile(r"(?:[aio]d|[ií]d|os|iv)[oa]$")
_AGENT = re.compile(r"(?:[dts]or)a?$")
_VERB_ENDINGS = {
    "a": "o as a amos áis an é aste ó asteis aron aba abas ábamos aban aré arás ará aremos arán aría arías aríamos "
    "arían ara aras áramos aran ase asen e es emos éis en ando ado ada ados adas ar arse a",
    "e": "o es e emos éis en í iste ió imos isteis ieron ía ías íamos ían eré erás erá eremos erán ería erías eríamos "
    "erían iera ieras iéramos ieran iese iesen a as amos áis an iendo yendo ido ida idos idas er erse",
    "i": "o es e imos ís en í iste ió isteis ieron ía ías íamos ían iré irás irá iremos irán iría irías iríamos irían "
    "iera ieras iéramos ieran iese iesen a as amos áis an iendo yendo ido ida idos idas ir irse",
}


@lru_cache(maxsize=4096)
def english_forms(word: str) -> frozenset[str]:
    """Return an English word's inflected forms and spellings, itself included. Phrases vary at either end."""
    first, _, rest = word.partition(" ")
    if rest:
        start, _, last = word.rpartition(" ")
        phrases = {f"{form} {rest}" for form in english_forms(first)}
        return frozenset(phrases | {f"{start} {form}" for form in english_forms(last)})
    if len(word) < 3 or not word.isalpha():
        return frozenset({word})
    bases = {word, *_english_bases(word)}
    for pattern, replacement in _SPELLINGS:
        bases |= {re.sub(pattern, replacement, base) for base in bases if len(base) > 3}
    return frozenset(bases.union(_GROUPS.get(word, ()), *map(_regular, bases)))


def _english_bases(word: str) -> list[str]:
    if word in _SINGULAR:
        return [_SINGULAR[word]]
    if word.endswith("s") and not re.search(r"(?:ss|us|is|ics)$", word) and word not in _ONLY_PLURAL:
        if word.endswith("ies") and len(word) > 4:
            return [word[:-3] + "y"]
        if word.endswith("es") and _SIBILANT.search(word[:-2]):
            return [word[:-2], word[:-1]]
        return [word[:-1]]
    if word.endswith("ed") and len(word) > 5:
        bases = [word[:-2], word[:-1]]
        return [*bases, word[:-3]] if word[-3] == word[-4] else bases
    return []


def _regular(base: str) -> list[str]:
    if _SIBILANT.search(base):
        plural = base + "es"
    elif re.search(r"[^aeiou]y$", base):
        plural = base[:-1] + "ies"
    else:
        plural = base + "s"
    forms = [plural, base + "es"] if base.endswith("o") else [plural]
    if re.search(r"[^aeiou]y$", base):
        return [*forms, base[:-1] + "ied", base + "ing"]
    if re.search(r"(?:ee|oe|ye)$", base):
        return [*forms, base + "ing"]
    if base.endswith("e"):
        return [*forms, base + "d", base[:-1] + "ing"]
    if _SHORT_VOWEL.search(base):
        return [*forms, base + base[-1] + "ed", base + base[-1] + "ing"]
    return [*forms, base + "ed", base + "ing", *([base + "led", base + "ling"] if base.endswith("l") else [])]


@lru_cache(maxsize=4096)
def spanish_forms(word: str) -> frozenset[str]:
    """Return a Spanish word's plural, its gender if it is an adjective or a being, and a verb's forms."""
    first, _, rest = word.partition(" ")
    if rest:
        return frozenset({f"{form} {rest}" for form in spanish_forms(first)})
    if len(word) < 3 or not word.isalpha():
        return frozenset({word})
    forms = {word}
    singular = word
    if word.endswith("ces"):
        singular = word[:-3] + "z"
    elif re.search(r"[^aeiouáéíóú]es$", word):
        forms.add(word[:-1])
        singular = word[:-2]
    elif re.search(r"[aeo]s$", word):
        singular = word[:-1]
    for noun in (word, singular):
        forms |= {noun, *(_plural(n) for n in _genders(noun))}
        forms |= set(_genders(noun))
    if re.search(r"..[aei]r(?:se)?$", word) or re.search(r"..ír(?:se)?$", word):
        forms |= _conjugated(word.removesuffix("se"))
    return frozenset(forms)


def _genders(noun: str) -> list[str]:
    if noun in ("jefe", "presidente", "dependiente", "cliente", "asistente", "infante"):
        return [noun, noun[:-1] + "a"]
    if noun.endswith(("o", "a")):
        masculine = noun[:-1] + "o"
        if masculine in _ANIMATE or (len(noun) > 4 and _ADJECTIVE.search(noun)):
            return [masculine, noun[:-1] + "a"]
    if len(noun) > 4 and (_AGENT.search(noun) or noun.startswith("señor")):
        return [noun.removesuffix("a"), noun.removesuffix("a") + "a"]
    return [noun]


def _plural(noun: str) -> str:
    if noun.endswith("z"):
        return noun[:-1] + "ces"
    return noun + ("s" if re.search(r"[aeiouáéó]$", noun) else "es")


def _conjugated(infinitive: str) -> set[str]:
    stem, vowel = infinitive[:-2], infinitive[-2].replace("í", "i")
    stems = {stem}
    places = [m.start() for m in re.finditer(r"[eou]", stem)]
    if places:
        at = places[-1]
        changes = {"e": ("ie", "i"), "o": ("ue", "u"), "u": ("ue",)}[stem[at]]
        stems |= {stem[:at] + change + stem[at + 1 :] for change in changes}
    for old, new in (
        (r"c$", "qu"),
        (r"g$", "gu"),
        (r"z$", "c"),
        (r"c$", "z"),
        (r"g$", "j"),
        (r"c$", "zc"),
        (r"u$", "uy"),
    ):
        stems |= {re.sub(old, new, s) for s in stems}
    clitics = {
        f"{infinitive}{end}" for end in ("se", "lo", "la", "los", "las", "le", "les", "me", "te", "nos")
    }
    return clitics | {s + ending for s in stems for ending in _VERB_ENDINGS[vowel].split()}


_LETTER = "0-9a-z\u00df-\u024f"
#: Words that replies use in sentences of their own. As an answer, such a word must be quoted or introduced.
_PROSE = """
able alarm alternative answer apply ask based basic beautiful believe best better bit bright call case change
character check choice clarify clear clever close code come common confirm context correct course create
creative custom date decide description determine dialect dictionary different difficult end
english error evidence example exist experiment explain explanation expression fact false family
familiar figure find first fit fix form form friend full game general get give glad go good great guess happy
hard head hear help hold hope idea information instance intended interesting interpret issue join
judge key kind knock know knowledge language last left let letter level life light like likely line list listen
little logical long look lot made make man matter mean meaning meant mention message mind minute missing
misspell mistake modify moment name need new next nice note number old one open option order original
page part people perform person phone phrase place plain play please point possible possibly present
price problem process proof proper proud provide question quick quiet quite read real really reason receive
record refer remark replace reply represent respond response rest resume right room root safe save say
search second see seem sense sentence set share short show sign signal similar
simple single school science walk library slang
smart sorry sound space spanish speak special speech spell spelling spoken stand
standard start state step still story substitute suggest sure surprise sweet take talk tell term test text thank
thing think thought time title token translate translation true try turn type understand use used useful
usual usually version view want watch way welcome well word work world would write
writer wrong year yes already however therefore
ayuda ayudar bien caso claro contexto creer cuenta decir ejemplo entender error español escribir escuchar
forma frase gusto hablar hacer idioma leer lengua libre lugar manera mano mejor mismo momento nombre nota
oración oído palabra parte pedir pensar persona poder posible pregunta querer quizás razón referir
respuesta saber sentido gente cosa mundo vida gracias favor hola mensaje problema diccionario expresión historia
ejercicio examen ser significado significar sonar sonido texto tiempo tomar usar uso ver verdad vez
发音 意思 句子 语言 语境 上下文 中文 汉语 英语 词语 单词 问题 回答 答案 读音 声音 文字 错误 正确 可能
原因 结果 解释 理解 知道 时间 东西 开始 使用 根据 信息 判断 推测 情况 例子
"""
_COMMON = frozenset(
    form
    for word in _PROSE.split()
    for form in ({plain(word)} if HAN.search(word) else map(plain, english_forms(word)))
)


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of an item's answers, to search in a reply.

    :param pattern: Finds every form in a text that `plain` returned; None if no form is left.
    :param exact: Accents are kept, because only they tell the answer from the homophone.
    :param function_word: The answer is a function word, so every form is a word of the replies' own sentences.
    """

    pattern: re.Pattern[str] | None
    exact: bool
    function_word: bool

    def is_common(self, form: str) -> bool:
        """Return True if replies use this folded form in sentences of their own."""
        if self.function_word or form in _COMMON:
            return True
        return any(is_function_word(form, code) for code in ("en", "es", "zh"))

    def found_in(self, text: str) -> bool:
        """Return True if a form occurs in a text, which need not be folded."""
        return self.pattern is not None and self.pattern.search(plain(text, exact=self.exact)) is not None


@lru_cache(maxsize=2048)
def forms_of(answers: tuple[str, ...], language: str, word: str = "") -> Forms:
    """Return the forms of the answers, without those that are the homophone itself."""
    native = fold(word).strip()
    exact = any(plain(a) == plain(word) and fold(a) != native for a in answers)
    own = plain(word, exact=exact).strip()
    forms = {plain(f, exact=exact) for i, a in enumerate(answers) for f in _inflected(fold(a), language, i)}
    forms = {form.strip() for form in forms} - {own, ""}
    latin = sorted((f for f in forms if not HAN.search(f)), key=len, reverse=True)
    han = sorted((f for f in forms if HAN.search(f)), key=len, reverse=True)
    parts = [re.escape(form) for form in han]
    if latin:
        spaced = "|".join(r"[\s-]{0,3}".join(map(re.escape, re.split(r"[\s-]+", form))) for form in latin)
        # A verb has hundreds of forms: most positions fail at their first letters.
        first = "".join(sorted({re.escape(form[0]) for form in latin}))
        parts.append(f"(?<![{_LETTER}])(?=[{first}])(?:{spaced})(?!-?[{_LETTER}])")
    pattern = re.compile("|".join(parts)) if parts else None
    return Forms(pattern, exact, bool(answers) and is_function_word(fold(answers[0]), language))


def _inflected(answer: str, language: str, index: int) -> Iterable[str]:
    answer = answer.strip()
    if language != "en" and answer.startswith("to "):
        answer = answer[3:].strip()
    if not answer or HAN.search(answer):
        return (answer,)
    if language == "es" and index == 0:
        return spanish_forms(answer) if not is_function_word(answer, "es") else (answer,)
    return english_forms(answer) if not is_function_word(answer, "en") else (answer,)
