"""The words by which a reply chooses, rejects and corrects: one section per language, and the patterns made of them.

Texts and words are compared in plain spelling (`core.texts.plain`), in any case. Words are separated by ``|`` and may
contain regular expressions. The names of the fields say where a word is, seen from the option that it is about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_llmprops.core.texts import plain


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one language; an empty text where it has none.

    :param answer: Before a stated choice or a conclusion: "the *answer* is A", "*so* it is A".
    :param link: Between these words and the option: "the answer *is the* A".
    :param but: Before the choice, after a concession: "it has rhymes, *but* it is A".
    :param rejects: Before a rejected option. :param rejected: After one.
    :param right: After the chosen option: "A *is correct*".
    :param stops: Where the reach of a word of rejection ends: "not A *but* B".
    :param affirms: Phrases that look like rejections. :param joins: Between options of which none is chosen yet.
    :param first: Before an impression that is given up. :param turns: Where a reply takes back all before.
    :param about: After an option that is explained, not chosen: "A *is for* rhymes".
    """

    answer: str = ""
    link: str = ""
    but: str = ""
    rejects: str = ""
    rejected: str = ""
    right: str = ""
    stops: str = ""
    affirms: str = ""
    joins: str = ""
    first: str = ""
    turns: str = ""
    about: str = ""


ENGLISH = Words(
    answer=r"answers?|labell?(?:ed)?|options?|choice|choose|chose|chosen|pick|select|say|go with|vote for|"
    r"opt for|group|class|category|classification|classif(?:y|ied)(?: \w+)?|output|result|response|"
    r"prediction|verdict|letter|character|symbol|shape|sentiment|decision|selection|translation|"
    r"correct|use|belongs (?:to|in)|guess|so|therefore|thus|hence|consequently|(?:it|this|that|"
    r"which)(?:'s| is| was| must be| has to be| would be| looks| becomes)|becomes|resembles|makes|"
    r"gives|forms|looks?(?: most)? like|turns (?:it )?into|final(?:ly)?|in conclusion|conclusion|"
    r"in short|overall|to sum up|correct answer",
    link="is|was|be|are|would|should|must|will|as|the|an?|to|in|of|it|this|here|only|just|simply|"
    "probably|clearly|most likely|definitely|therefore|option|label|letter|group|class|category|"
    "word|correct|right|best|answer|one|that|sentence|text",
    but="but|however|instead|rather|finally|final|yet|in the end|so|therefore",
    rejects=r"not|\w+n't|never|neither|nor|cannot|without|except(?: for)?|exclud\w+|eliminat\w+|reject\w*|"
    r"rul(?:e|ed|ing) out|unlike|instead of|(?:rather |other |more )?than|anything but|"
    r"everything but|all but|far from|avoid|as opposed to|no|none|unsure|contrary to|against|"
    r"wrong(?: to)?|incorrect(?: to)?|dismiss\w*",
    rejected=r"(?:is|was|are|were|be|would be|should be|seems|looks|sounds|being) ?(?:not|n't|never)|(?:is|"
    r"was|are|were|does|do|did|would|could|should|can|will|has|must)n't|(?:does|do|did|would|could|"
    r"should|can|will|must) not|cannot|fails to|(?:(?:is|was|are|were|be|would be|should be|seems|"
    r"looks|sounds|being) ?)?(?:(?:clearly|simply|just|also|both|therefore|too|"
    r"definitely) )?(?:wrong|incorrect|inaccurate|inappropriate|unsuitable|unnatural|invalid|false|"
    r"impossible|unlikely|rejected|excluded|eliminated|ruled out|out\b|the wrong|a mistake)|"
    r"can be (?:ruled|excluded|eliminated|rejected)\w*|(?:[:=→-]|[=-]>) ?(?:no|false|wrong|"
    r"incorrect)\b(?! ?[a-z])",
    right=r"(?:is|was|fits|seems|would be) (?:the )?(?:correct|right|best|better|answer|most \w+|it\b|"
    r"my)|it is|fits|applies|matches|is my (?:answer|choice)|(?:[:=→-]|[=-]>) ?(?:yes|true|correct|"
    r"right)\b",
    stops="(?<!anything )(?<!everything )(?<!all )but|so|hence|thus|therefore|because|since|"
    "(?<!think )(?<!believe )(?<!sure )(?<!say )(?<!that )(?<!if )(?<!whether )(?:it|this|"
    "that)(?: is|'s)|rather(?! than)|then",
    affirms=r"not only|not just|not merely|no doubt|without (?:a |any )?doubt|no question|nothing (?:but|"
    r"other than)|no other than|none other than|no problem|why not|doubtless|can(?:not|"
    r"'t) (?:rule out|exclude)|not a no\b|not (?:wrong|incorrect)",
    joins=r"or|and|nor|vs\.?|versus|maybe|perhaps|possibly|even|also|could be|may be|might be|it|either",
    first="at first(?: glance| sight)?|first impression|first (?:i )?thought|initially|"
    "(?:i )?(?:was going to|first|almost|would have|might have) (?:say|said|thought|chosen|"
    "picked)|(?:some|one|others|many|people|readers?|reader) (?:would|might|could|may) (?:say|"
    "think|argue|answer|choose)|i thought|tempting|considered|it could (?:be|look like)|although|"
    "though|despite|even though|draft",
    about=r"(?:is|are|was|would be) (?:only |just |mostly |usually |more )?(?:for|used|about|when|if|"
    r"reserved|meant|about)\b|means?\b|stands? for|refers? to|denotes|describes|represents|"
    r"would (?:mean|need|require)|if\b|when(?:ever)?\b|(?:examples?|texts?|items?|ones|sentences?|"
    r"pairs?|samples?|cases?)\b|are\b|for (?!sure|this|the|me|now|it|that)",
    turns=r"wait|actually|correction|on (?:second thoughts?|reflection|closer \w+)|oops|sorry|apologies|"
    r"scratch that|i mean[t]?|no longer|in fact|my mistake|that(?: is|'s) (?:wrong|incorrect)|"
    r"let me correct\w*|corrected|but no\b|no(?= ?[,.:!-])|edit(?= ?:)",
)  # fmt: skip
CHINESE = Words(
    answer="答案?|回答|选项?|选择|结论|结果|标签|情感|倾向|选项|首选|判断|所以|因此|故|应该?[是为选]?|属于|于是|表达|倾向于?|[就则却]?[是为]|实则|剩下|最终|最后|"
    "总之|综上|综上所述|正确|修改后|应为|准确",
    link="是|为|应该?|就|选项?|的|倾向|情感|会|偏向?|更|正确|认为",
    but="但是?|然而|实则|最终|最后|正确|因此|所以|却|而是",
    rejects="不是?|没有?|无|未|别|除了|排除|看似|乍一?看|表面|与其说|而非|并非|不选|原以为|错误的?是|而不",
    rejected="(?:选?项)?(?:并|就|都|是)?(?:错误?|有误|不(?:太?合适|对|正确|成立|符合|恰当|是|行|可能))|可以排除",
    right="(?:选?项)?(?:更|最|是|才是)?(?:正确|合适|恰当|对的|成立|符合)",
    stops="而是|而选|但是?|却|(?<!不)应该?[是为]|(?<!不)应选|所以|因此|其实",
    affirms="不仅|不但|不只|不光|不得不|不难|不错|不过|不如|不同|毫无疑问|无疑|无论|非常",
    joins="的|或者?|和|与|及|以及|还是|就是|即|也|都",
    first="乍一?看|看似|表面上?|原以为|起初|一开始|虽然|尽管|原本|初步|草稿|修改前|改正前|调整前",
    about="代表|表示|意味着|是指|如果|时|还是",
    turns="其实|不对|更正|等等|等一下|重新考虑|抱歉|应该是说|改正|修正|更正为|后来",
)  # fmt: skip
JAPANESE = Words(
    answer="答えは?|正解は?|選択|選ぶのは|なので|よって|従って|したがって|だから",
    link="は|「|なら",
    but="しかし|ただし|ですが",
    rejected="(?:という(?:語|言葉|単語)|の(?:方|ほう)|では|は|が|も|を|で)*(?:ではな[くい]|ではありません|じゃな[くい]|でな[くい]|でもな[くい]|の代わり|"
    "のかわり|というより|よりも?|不適切|間違い|誤り|不正解|違う|違います|使わない|使いません|使えない|使えません|合わない|合いません|不自然|除外|以外|適切ではない|"
    "適切でない|正しくない|当てはまらない|ふさわしくない|だめ|駄目|選ばない|選びません|避け|不可|な[くい])",
    right="(?:が|を)(?:正解|正しい|適切|ふさわしい|使う|使います|選ぶ|選びます|自然)|です",
    joins="か|や|も|でも|と|または|あるいは|および",
    about='は[^。.」"]{1,20}?(?:場合|時|とき|前|後|ので|から)',
    turns="いや|訂正|すみません",
)  # fmt: skip
SPANISH_GALICIAN = Words(
    answer="respuesta|respostas?|etiqueta|elijo|escollo|opcion|palabra|sentido|por tanto|polo tanto|"
    "entonces|logo|asi que|enton",
    link="es|e|a|la|el|o|correcta|seria",
    but="pero|sino",
    rejects="non?|nunca|nin|ni|en vez de|en lugar de|en troques de|no canto de|ca|agas|do que|sino|"
    "excepto",
    rejected=r"(?:non?|esta|es|e|seria) (?:es|e|encaixa|vale|serve|procede|correct\w|incorrect\w|errone\w|"
    r"inadecuad\w|mal)|non\b",
    right=r"(?:es|e) (?:o |a |la |el )?(?:correct\w|axeitad\w|mellor|mejor)",
    stops="sino|pero|senon",
    joins="ou?|y|e|ou ben",
    about="(?:usase|se usa|es|e) (?:para|cando|cuando)",
    turns="perdon|mejor dicho|mellor dito",
)  # fmt: skip
AFRIKAANS = Words(
    answer="antwoord|kies|keuse|vertaling|woord|dus|daarom|so",
    link="is|die|dit",
    but="maar",
    rejects="nie|nooit|in plaas van|pleks van|eerder as|sonder|behalwe|nog",
    rejected=r"nie\b|is (?:nie|verkeerd|fout|onvanpas|die verkeerde)|(?:pas|werk) nie",
    right="is (?:korrek|reg|die regte|die beste|beter)",
    stops="maar",
    joins="of|en",
    about="is (?:vir|net vir)|word (?:vir|gebruik)",
    turns="wag|jammer",
)  # fmt: skip
OTHERS = Words(
    answer=r"reponse|antwort|svar|ответ|resposta|atbilde|atbilde ir|पर्याय|उत्तर|جواب|پاسخ|պատասխան\w*|"
    r"பதில்|సమాధానం|donc|поэтому|इसलिए|इसलिये|अतः|ուստի|ուրեմն|հետեւաբար|tapec|tadel|tatad|"
    r"بنابراین|پس|ஆகவே|எனவே|ஆகையால்|అందువల్ల|అందుకే|కాబట్టి",
    link="est|ist|la|die|есть|ir|है|است|է|ه",
    but="aber|но|लेकिन|բայց|bet|اما|ஆனால்|కానీ",
    rejects=r"nicht|kein\w*|pas|не|nevis|ne|nav|neka|bez|نه|به جای|بجای|جز|غیر از|नहीं|न कि|ना कि|न|ոչ|"
    r"ոչ թե|չէ թե|քան|առանց",
    rejected=r"nicht|(?:مناسب |درست |صحیح )?نیست|نمی باشد|نادرست|غلط|اشتباه|نامناسب|نه\b|(?:सही |ठीक |"
    r"उपयुक्त |यहाँ |शब्द |तो |कभी |बिल्कुल )?नहीं|नही|(?:के|की) (?:बजाय|जगह|बदले)|के स्थान पर|गलत|"
    r"अनुपयुक्त|न होकर|को छोड़कर|(?:ի )?փոխարեն|սխալ(?: է)?|չէ|(?:ճիշտ|հարմար|տեղին) չէ|չի|"
    r"[ըն] (?:սխալ է|չէ)|ոչ\b|vieta|nav(?: \w+)?|ir (?:nepareiz\w|kluda)|neder|neatbilst|அல்ல|"
    r"அல்லாமல்|இல்லை|இல்லாமல்|அன்று|தவறு|தவறானது|பொருந்தாது|பொருத்தமற்றது|சரியல்ல|சரி இல்லை|"
    r"சரியில்லை|வேண்டாம்|கிடையாது|கூடாது|தவிர|என்பது (?:தவறு|அல்ல|பொருந்தாது)|என்பதற்குப்? பதில்|"
    r"కాదు|కాకుండా|కాక|లేదు|తప్పు|సరికాదు|సరిపోదు|సరైనది కాదు|బదులుగా|బదులు|[కి|కు] బదులుగా?|వద్దు|"
    r"పొరపాటు|అనేది (?:కాదు|తప్పు)|తగదు",
    right=r"درست|صحیح|مناسب|सही|उपयुक्त|ճիշտ|pareiz\w+|சரி\w*|సరైన\w*",
    stops="sondern|а|बल्कि|بلکه|այլ|bet",
    joins="oder|ou|или|یا|و|या|और|կամ|եւ|եվ|ու|vai|un|அல்லது|மற்றும்|లేదా|మరియు",
)  # fmt: skip
#: Without spaces between words, a word is found inside others.
_UNSPACED = (CHINESE, JAPANESE)
_SPACED = (ENGLISH, SPANISH_GALICIAN, AFRIKAANS, OTHERS)
#: A letter, digit or sign of a script with spaces between words; the beginning and the end of a word.
LETTER = r"[^\W_\u3005-\u30ff\u3400-\u9fff]|[\u0900-\u0dff]"
BEGIN, END = rf"(?<!{LETTER.replace('|', ')(?<!')})", rf"(?!{LETTER})"


def _any(field: str, *, begins: bool = True) -> str:
    """Return a pattern for the words of all languages that have one role."""
    spaced = "|".join(filter(None, (getattr(words, field) for words in _SPACED)))
    unspaced = "|".join(filter(None, (getattr(words, field) for words in _UNSPACED)))
    return plain(f"(?:{BEGIN if begins else ''}(?:{spaced}){END}|{unspaced})")


_QUOTES = r"[\s\"'*_`(\[{<$]"
_AFTER = r"[\"'*_`)\]}>$]{0,4}[ \t]{0,3}"
#: Words after which a letter or "no" is an answer, not an article or part of a phrase ("A vowel", "no difference").
AFTER_ANSWER = re.compile(
    r" (?:although|and|applies|are|as|based|because|but|can|can't|cannot|category|class|could|definitely|does|doesn't"
    r"|due|examples?|fits|for|from|given|group|here|if|instead|is|isn't|it|labels?|me|must|not|of course|only|or|over"
    r"|pattern|rather|seems?|since|texts?|then|though|to|too|type|was|when|which|while|with|would|wouldn't)\b"
    r"|(?! +[A-Za-zÀ-ɏ]{2})"
)
#: patterns by name; case is ignored
_PATTERNS = {
    # These are searched in the text before an option, and end at it.
    "CUE": rf"(?:{_any('answer')}|→|[=-]>)(?:(?:[\s\"'*_`(\[{{<$:=>,✓→-]|{_any('link')}){{0,12}}\Z"
    rf"|[^.;!?\n]{{0,50}} (?:is|was|would be):?{_QUOTES}*\Z)|✓{_QUOTES}*\Z|{_any('but')}[^.;!?\n]{{0,60}}\Z",
    "REJECTS": rf"{_any('rejects')}[^.;!?\n]{{0,40}}\Z",
    "REJECTS_LABEL": rf"(?:{BEGIN}(?:wrong|incorrect|rejected|not)(?: \w+)? ?[:=]|错误\w{{0,4}} ?[:=]|✗"
    rf"|\bover|(?<=\w) >){_QUOTES}*\Z",
    "FIRST": rf"{_any('first')}[^.;!?\n,]*,?[^.;!?\n,]{{0,30}}\Z",
    "IF": rf"{BEGIN}(?:if|unless|otherwise|whether){END}|如果|若是|否则",
    "STOPS": rf"[.;!?:\n—–]|,(?!\s*(?:or|nor)\b)|→|[=-]>|{_any('stops')}",
    # These are matched after an option.
    "RIGHT": rf"{_AFTER}(?:{_any('right', begins=False)}|✓|\?+\s*(?:yes|yep|correct|right|对|是)\b)",
    "REJECTED": rf"{_AFTER}-?(?:{_any('rejected', begins=False)}|✗"
    rf"|\?+{_AFTER}\s*(?:hm+\W*)?(?:no|nope|wrong|not|不|nee|non)\b)",
    "ABOUT": rf"{_AFTER}(?:\?|{_any('about', begins=False)})",
    "DEFINED": rf"{_AFTER}(?:[:=→]|->|--?\s|–|—)\s*{_QUOTES}*[^\W\d_]",
    "EXPLAINED": rf"{_AFTER}(?:(?:[.:;,]|\s*[-–—]|\s+(?:because|since|as)\b|\s*\n)\s*\S|\s*\()",
    # These are between two options.
    "OR": _any("joins") + "|[/&]",
    "JOINED": rf"(?:[\s\"'*_`()\[\],/\\|&;.+\d-]|{_any('joins')}"
    rf"|{BEGIN}(?:the|option|label|letter|answer)s?{END}){{0,24}}",
    # These may be anywhere.
    "AFFIRMS": _any("affirms"),
    "TURNS": _any("turns"),
    "CALLED_RIGHT": f"{_any('turns')}|{_any('answer')}|✓",
    # A line with which a base model goes on after its answer, as in its prompt.
    "NEXT": r"\n[ \t#*>_]*(?:input|question|sentence|text|review|prompt|user|human|instruction|q|english|句子"
    r"|问题|输入|用户|下面这句话)(?: ?\d{1,2})?[ \t*_]*(?:[:：\"]|表达)",
    # A line of words with which a reply corrects its list; an item may be the instruction WAIT or the song Sorry.
    "CORRECTED": rf"(?m)^[ \t>*_]{{0,4}}(?=[^\W\d_])[^\n]{{0,200}}?{_any('turns')}",
    # The line of a list with commas, which may end in a period, or without items; keys of JSON with a remark or a
    # number, a name, a kind.
    "LISTED": r"[ \t*_]*(?:[\w ]{0,40}\b)?(?:entit(?:y|ies)|items?|names|list|answers?|results?)\b"
    r"[\w *_]{0,30}[:：][*_]{0,2}\s*(?P<items>\S.*?)(?:(?<=\w\w)\.)?",
    "NONE": r"\W*(?:(?:named )?entit\w+\W*)?(?:none|nothing|n/a|empty|empty list|no \w+)(?: (?:were |was |are )?"
    r"(?:found|present|detected))?\W*|[^\n]{0,80}\b(?:there (?:are|is|were) (?:no\b|none)|(?:contains?|has|have"
    r"|mentions?|found|see|find|identify) no\b|(?:not|n't) (?:contain|have|mention|include|see|find|identify|detect)\b)"
    r"[^:\n]{0,80}|no (?:\w+ ){0,2}(?:entities|names|items)\b[^:\n]{0,60}",
    "REMARK_KEY": r".*(?:expla|reason|rationale|thought|thinking|note|comment|analysis|confiden|alternativ|input"
    r"|sentence|question|error|message|理由|解释|说明|思考|分析).*|#|no\.?|id",
    "NAME_KEY": r"(?:entity|item)?[ _]?(?:name|text|value|word|mention|term|span|entity|item)",
    "KIND_KEY": r"(?:entity|item)?[ _]?(?:type|class|category|label|kind|tag)",
}


def __getattr__(name: str) -> re.Pattern[str]:
    """Compile a pattern when it is first used: compiling all takes a tenth of a second."""
    if name not in _PATTERNS:
        raise AttributeError(name)
    pattern = globals()[name] = re.compile(_PATTERNS[name], re.IGNORECASE)
    return pattern
