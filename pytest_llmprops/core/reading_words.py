"""The words by which a reply chooses, rejects and corrects: one section per language, for `reading`.

Texts and words are compared without accents, in any case. Words are separated by ``|`` and may contain regular
expressions. The names of the fields say where a word is, seen from the option that it is about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one language; an empty text where it has none.

    :param answer: Before a stated choice: "the *answer* is A", "I *choose* A".
    :param link: Between these words and the option: "the answer *is the* A".
    :param so: Before a conclusion. :param final: Before the last word on the question.
    :param rejects: Before a rejected option. :param rejected: After one.
    :param right: After the chosen option: "A *is correct*".
    :param stops: Where the reach of a word of rejection ends: "not A *but* B".
    :param affirms: Phrases that look like rejections.
    :param joins: Between options of which none is chosen yet.
    :param because: Before remarks about other options. :param first: Before an impression that is given up.
    :param turns: Where a reply takes back all before. :param but: Where it may.
    :param about: After an option that is explained, not chosen: "A *is for* rhymes".
    :param undecided: What says that there is no choice.
    """

    answer: str = ""
    link: str = ""
    so: str = ""
    final: str = ""
    rejects: str = ""
    rejected: str = ""
    right: str = ""
    stops: str = ""
    affirms: str = ""
    joins: str = ""
    because: str = ""
    first: str = ""
    turns: str = ""
    but: str = ""
    about: str = ""
    undecided: str = ""


_BE = r"(?:is|was|are|were|be|would be|should be|seems|looks|sounds|being)"
_BAD = (
    r"(?:(?:clearly|simply|just|also|both|therefore|too|definitely) )?(?:wrong|incorrect|inaccurate"
    r"|inappropriate"
    r"|unsuitable|unnatural|invalid|false|impossible|unlikely|rejected|excluded|eliminated|ruled out"
    r"|out\b|the wrong"
    r"|a mistake)"
)

ENGLISH = Words(
    answer=r"answers?|labell?(?:ed)?|options?|choice|choose|chose|chosen|pick|select|say|go with"
    r"|vote for|opt for"
    r"|group|class|category|classification|classif(?:y|ied)(?: \w+)?|output|result|response|prediction"
    r"|verdict|letter"
    r"|character|symbol|shape|sentiment|decision|selection|translation|correct|use|belongs (?:to|in)|guess",
    link=r"is|was|be|are|would|should|must|will|as|the|an?|to|in|of|it|this|here|only|just|simply"
    r"|probably|clearly"
    r"|most likely|definitely|therefore|option|label|letter|group|class|category|word|correct|right|best"
    r"|answer|one"
    r"|that|sentence|text",
    so=r"so|therefore|thus|hence|consequently|(?:it|this|that|which)(?:'s| is| was| must be| has to be"
    r"| would be| looks"
    r"| becomes)|becomes|resembles|makes|gives|forms|looks?(?: most)? like|turns (?:it )?into",
    final=r"final(?:ly)?|in conclusion|conclusion|in short|overall|to sum up|correct answer",
    rejects=r"not|\w+n't|never|neither|nor|cannot|without|except(?: for)?|exclud\w+|eliminat\w+"
    r"|reject\w*|rul(?:e|ed|ing) out"
    r"|unlike|instead of|(?:rather |other |more )?than|anything but|everything but|all but|far from"
    r"|avoid|as opposed to"
    r"|no|none|unsure|contrary to|against|wrong(?: to)?|incorrect(?: to)?|dismiss\w*",
    rejected=rf"{_BE} ?(?:not|n't|never)|(?:is|was|are|were|does|do|did|would|could|should|can|will|has"
    rf"|must)n't"
    rf"|(?:does|do|did|would|could|should|can|will|must) not|cannot|fails to|(?:{_BE} ?)?{_BAD}"
    r"|can be (?:ruled|excluded|eliminated|rejected)\w*|(?:[:=→-]|[=-]>) ?(?:no|false|wrong|incorrect)\b(?! ?[a-z])",
    right=r"(?:is|was|fits|seems|would be) (?:the )?(?:correct|right|best|better|answer|most \w+|it\b"
    r"|my)|it is|fits|applies"
    r"|matches|is my (?:answer|choice)|(?:[:=→-]|[=-]>) ?(?:yes|true|correct|right)\b",
    stops=r"(?<!anything )(?<!everything )(?<!all )but|so|hence|thus|therefore|because|since"
    r"|(?<!think )(?<!believe )(?<!sure )(?<!say )(?<!that )(?<!if )"
    r"(?<!whether )(?:it|this|that)(?: is|'s)|rather(?! than)|then",
    affirms=r"not only|not just|not merely|no doubt|without (?:a |any )?doubt|no question|nothing (?:but"
    r"|other than)|no other than"
    r"|none other than|no problem|why not|doubtless|can(?:not|'t) (?:rule out|exclude)|not a no\b"
    r"|not (?:wrong|incorrect)",
    joins=r"or|and|nor|vs\.?|versus|maybe|perhaps|possibly|even|also|could be|may be|might be|it|either",
    because=r"because|since|as|while|whereas|although|though|unlike|if|instead of|even if|only if",
    first=r"at first(?: glance| sight)?|first impression|first (?:i )?thought|initially"
    r"|(?:i )?(?:was going to|first|almost|would have"
    r"|might have) (?:say|said|thought|chosen|picked)|(?:some|one|others|many|people|readers?"
    r"|reader) (?:would|might|could|may) (?:say|think"
    r"|argue|answer|choose)|i thought|tempting|considered|it could (?:be|look like)|although|though"
    r"|despite|even though",
    turns=r"wait|actually|correction|on (?:second thoughts?|reflection|closer \w+)|oops|sorry|apologies"
    r"|scratch that|i mean[t]?"
    r"|no longer|in fact|my mistake|that(?: is|'s) (?:wrong|incorrect)|let me correct\w*|corrected"
    r"|but no\b|no(?= ?[,.:!-])",
    but=r"but|however|instead|rather|finally|final|yet|in the end|so|therefore",
    about=r"(?:is|are|was|would be) (?:only |just |mostly |usually |more )?(?:for|used|about|when|if"
    r"|reserved|meant|about)\b"
    r"|means?\b|stands? for|refers? to|denotes|describes|represents|would (?:mean|need|require)|if\b"
    r"|when(?:ever)?\b"
    r"|(?:examples?|texts?|items?|ones|sentences?|pairs?|samples?|cases?)\b|are\b|for (?!sure|this|the|me|now|it|that)",
    undecided=r"depends|depending|can(?:not|'t) (?:be )?(?:determined?|tell|say|decide|answer)|unable"
    r"|unclear|interchangeabl\w+|both\b(?! (?:are )?(?:wrong|incorrect))"
    r"|unsure|not sure|otherwise",
)  # fmt: skip
CHINESE = Words(
    answer="答案?|回答|选项?|选择|结论|结果|标签|情感|倾向|选项|首选|判断",
    link="是|为|应该?|就|选项?|的|倾向|情感|会|偏向?|更|正确|认为",
    so="所以|因此|故|应该?[是为选]?|属于|于是|表达|倾向于?|[就则却]?[是为]|实则|剩下",
    final="最终|最后|总之|综上|综上所述",
    rejects="不是?|非|没有?|无|未|别|除了|排除|看似|乍一?看|表面|与其说|而非|并非|不选|原以为|错误的?是|而不",
    rejected="(?:选?项)?(?:并|就|都|是)?(?:错误?|有误|不(?:太?合适|对|正确|成立|符合|恰当|是|行|可能))"
    "|可以排除",
    right="(?:选?项)?(?:更|最|是|才是)?(?:正确|合适|恰当|对的|成立|符合)",
    stops="而是|而选|但是?|却|(?<!不)应该?[是为]|(?<!不)应选|所以|因此|其实",
    affirms="不仅|不但|不只|不光|不得不|不难|不错|不过|不如|不同|毫无疑问|无疑|无论|非常",
    joins="的|或者?|和|与|及|以及|还是|就是|即|也|都",
    because="因为|由于|虽然|尽管|如果|若|假如",
    first="乍一?看|看似|表面上?|原以为|起初|一开始|虽然|尽管|原本",
    turns="其实|不对|更正|等等|等一下|重新考虑|抱歉|应该是说|改正|修正|更正为|后来",
    but="但是?|然而|实则|最终|最后|正确|因此|所以|却|而是",
    about="代表|表示|意味着|是指|如果|时|还是",
    undecided="无法|不能(?:判断|确定)|难以|不确定|取决于|抱歉|如果|否则|两者|都可以|都有可能|说得通",
)
JAPANESE = Words(
    answer="答えは?|正解は?|選択|選ぶのは",
    link="は|「|なら",
    so="なので|よって|従って|したがって|だから",
    rejected="(?:という(?:語|言葉|単語)|の(?:方|ほう)|では|は|が|も|を|で)*(?:ではな[くい]"
    "|ではありません|じゃな[くい]|でな[くい]|でもな[くい]"
    "|の代わり|のかわり|というより|よりも?|不適切|間違い|誤り|不正解|違う|違います|使わない|使いません"
    "|使えない|使えません"
    "|合わない|合いません|不自然|除外|以外|適切ではない|適切でない|正しくない|当てはまらない"
    "|ふさわしくない|だめ|駄目|選ばない"
    "|選びません|避け|不可|な[くい])",
    right="(?:が|を)(?:正解|正しい|適切|ふさわしい|使う|使います|選ぶ|選びます|自然)|です",
    joins="か|や|も|でも|と|または|あるいは|および",
    turns="いや|訂正|すみません",
    but="しかし|ただし|ですが",
    about='は[^。.」"]{1,20}?(?:場合|時|とき|前|後|ので|から)',
    undecided="どちらも|どちらでも|どれでも|場合による|両方",
)
SPANISH_GALICIAN = Words(
    answer="respuesta|respostas?|etiqueta|elijo|escollo|opcion|palabra|sentido",
    link="es|e|a|la|el|o|correcta|seria",
    so="por tanto|polo tanto|entonces|logo|asi que|enton",
    rejects="non?|nunca|nin|ni|en vez de|en lugar de|en troques de|no canto de|ca|agas|do que|sino|excepto",
    rejected="(?:non?|esta|es|e|seria) (?:es|e|encaixa|vale|serve|procede|correct\\w|incorrect\\w"
    "|errone\\w|inadecuad\\w|mal)"
    "|non\\b",
    right="(?:es|e) (?:o |a |la |el )?(?:correct\\w|axeitad\\w|mellor|mejor)",
    stops="sino|pero|senon",
    joins="ou?|y|e|ou ben",
    because="porque|xa que|mentres(?: que)?|ainda que|pero|aunque",
    turns="perdon|mejor dicho|mellor dito",
    but="pero|sino",
    about="(?:usase|se usa|es|e) (?:para|cando|cuando)",
    undecided="ambos|ambas|abas|depende",
)
AFRIKAANS = Words(
    answer="antwoord|kies|keuse|vertaling|woord",
    link="is|die|dit",
    so="dus|daarom|so",
    rejects="nie|nooit|in plaas van|pleks van|eerder as|sonder|behalwe|nog",
    rejected="nie\\b|is (?:nie|verkeerd|fout|onvanpas|die verkeerde)|(?:pas|werk) nie",
    right="is (?:korrek|reg|die regte|die beste|beter)",
    stops="maar",
    joins="of|en",
    because="want|omdat|terwyl|aangesien|hoewel|maar",
    turns="wag|jammer",
    but="maar",
    about="is (?:vir|net vir)|word (?:vir|gebruik)",
    undecided="hang af|beide",
)
OTHERS = Words(
    answer="reponse|antwort|svar|ответ|resposta|atbilde|atbilde ir|पर्याय|उत्तर|جواب|پاسخ|պատասխան\\w*"
    "|பதில்|సమాధానం",
    link="est|ist|la|die|есть|ir|है|است|է|ه",
    so="donc|also|поэтому|इसलिए|इसलिये|अतः|ուստի|ուրեմն|հետեւաբար|tapec|tadel|tatad|بنابراین|پس|ஆகவே"
    "|எனவே|ஆகையால்|అందువల్ల|అందుకే"
    "|కాబట్టి",
    rejects="nicht|kein\\w*|pas|не|nevis|ne|nav|neka|bez|نه|به جای|بجای|جز|غیر از|नहीं|न कि|ना कि|न|ոչ"
    "|ոչ թե|չէ թե|քան|առանց",
    rejected="nicht|"
    "(?:مناسب |درست |صحیح )?نیست|نمی باشد|نادرست|غلط|اشتباه|نامناسب|نه\\b|(?:सही |ठीक |उपयुक्त |यहाँ |शब्द |तो |कभी "
    "|बिल्कुल )?नहीं|नही|(?:के|की) (?:बजाय|जगह|बदले)"
    "|के स्थान पर|गलत|अनुपयुक्त|न होकर|को छोड़कर|(?:ի )?փոխարեն|սխալ(?: է)?|չէ|(?:ճիշտ|հարմար|տեղին) չէ"
    "|չի|[ըն] (?:սխալ է|չէ)|ոչ\\b|vieta"
    "|nav(?: \\w+)?|ir (?:nepareiz\\w|kluda)|neder|neatbilst|அல்ல|அல்லாமல்|இல்லை|இல்லாமல்|அன்று|தவறு"
    "|தவறானது|பொருந்தாது|பொருத்தமற்றது|சரியல்ல"
    "|சரி இல்லை|சரியில்லை|வேண்டாம்|கிடையாது|கூடாது|தவிர|என்பது (?:தவறு|அல்ல|பொருந்தாது)"
    "|என்பதற்குப்? பதில்|కాదు|కాకుండా|కాక|లేదు|తప్పు|సరికాదు"
    "|సరిపోదు|సరైనది కాదు|బదులుగా|బదులు|[కి|కు] బదులుగా?|వద్దు|పొరపాటు|అనేది (?:కాదు|తప్పు)|తగదు",
    right="درست|صحیح|مناسب|सही|उपयुक्त|ճիշտ|pareiz\\w+|சரி\\w*|సరైన\\w*",
    stops="sondern|а|बल्कि|بلکه|այլ|bet",
    joins="oder|ou|или|یا|و|या|और|կամ|եւ|եվ|ու|vai|un|அல்லது|மற்றும்|లేదా|మరియు",
    because="weil|क्योंकि|जबकि|लेकिन|որովհետեւ|քանի որ|իսկ|բայց|jo|bet|kamer|چون|زیرا|اما|در حالی که"
    "|ஏனெனில்|ஆனால்|ఎందుకంటే|కానీ",
    but="aber|но|लेकिन|բայց|bet|اما|ஆனால்|కానీ",
    undecided="दोनों|هر دو|երկուսն էլ|இரண்டும்|రెండూ",
)
#: Without spaces between words, a word is found inside others.
UNSPACED = (CHINESE, JAPANESE)
SPACED = (ENGLISH, SPANISH_GALICIAN, AFRIKAANS, OTHERS)
