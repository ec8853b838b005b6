"""The spellings of an item's answers that a reply may use: inflected, without accents, in either script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.function_words import is_function_word
from pytest_llmprops.benchmarks.homophones.inflection import english_forms, spanish_forms
from pytest_llmprops.benchmarks.homophones.normal import HAN, fold, plain

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
    :param exact: Accents and are kept, because only they tell the answer from the homophone.
    :param function_word: The answer is a function word, so every form is a word of the replies' own sentences.
    """

    pattern: re.Pattern[str] | None
    exact: bool
    function_word: bool

    def is_common(self, form: str) -> bool:
        """Return whether replies use this folded form in sentences of their own."""
        if self.function_word or form in _COMMON:
            return True
        return any(is_function_word(form, code) for code in ("en", "es", "zh"))

    def found_in(self, text: str) -> bool:
        """Return whether a form occurs in a text, which need not be folded."""
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
