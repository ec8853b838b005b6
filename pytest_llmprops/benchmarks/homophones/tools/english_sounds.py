"""Letter-to-sound rules of English: how a reader may pronounce an unknown word.

Every line is one rule: ``regex = reading | reading:cost``. The regular expression matches a grapheme (``^`` and
``$`` are the word's ends, look-around is context). A reading consists of ARPAbet phonemes; ``-`` means silent.
The cost says how unusual the reading is (0 = ordinary, 0.1 = known from common words, 0.2 = rare). Readings
that are not listed are impossible. The rules and the dictionary are General American.
"""

from __future__ import annotations

_CONSONANTS = """
b = B
bb = B
(?<=m)b$ = -
bt$ = T:0.1
c(?=[eiy]) = S
c(?![eiyh]) = K
cc(?![eiy]) = K
cc(?=[eiy]) = K S
ce$ = S
ch = CH | K:0.1 | SH:0.1
ck = K
cks = K S
cks$ = K S
ci(?=[aeo]) = SH
cian$ = SH AH N
cq(?=u) = K
d = D
dd = D
dge = JH
dg(?=[eiy]) = JH
dj = JH
ed$ = D | T:0.05 | IH D | AH D
f = F
ff = F
g(?![eiy]) = G
g(?=[eiy]) = JH | G
gg = G
gh(?=[aeiou]) = G
gh = -:0.1 | F:0.1
ge$ = JH | ZH:0.1
gn = N
gu(?=[aeiy]) = G
gue$ = G
h = HH
(?<=[aeiourkg])h = -
(?<=[bdglmn])h = -:0.1
j = JH
k = K
kk = K
kh = K
^kn = N
kn = N:0.1
l = L
ll = L
l(?=[mfkd]) = -:0.1
(?<=[^aeiou])le$ = AH L
(?<=[aeiou])le$ = L | AH L
(?<=[^aeiou])el$ = AH L
(?<=[^aeiou])al$ = AH L
m = M
mm = M
mb$ = M
me$ = M
mn$ = M
n = N
nn = N
ng = NG | NG G
ng(?=[eiy]) = N JH
n(?=[kqcx]) = NG
ne$ = N
p = P
pp = P
ph = F
^ps = S
^pn = N
^pt = T
^pf = F:0.1
q = K
qu = K W | K:0.1
que$ = K
r = R
rr = R
rh = R
wr = R
s = S | Z
ss = S
se$ = S | Z
sc(?=[eiy]) = S
sce$ = S
sch = SH:0.1 | S K
sh = SH
si(?=[ao]) = ZH | SH
sion$ = ZH AH N | SH AH N
sean$ = SH AH N:0.1
ssi(?=[aou]) = SH
ssion$ = SH AH N
sure$ = ZH ER | SH ER
ssure$ = SH ER
s(?=u) = SH:0.1 | ZH:0.1
st(?=(le|en)$) = S
^sw = S W | S:0.1
t = T
tt = T
tch = CH
th = TH | DH
th(?=[ymo]) = T:0.2
ti(?=[aou]) = SH
tian$ = SH AH N
tion$ = SH AH N
tu(?=[aer]) = CH UW | CH
ture$ = CH ER
te$ = T
ts = T S
tz = T S
v = V
vv = V
ve$ = V
w = W
(?<=[aeiou])w = -:0.2
wh = W | HH:0.1
x = K S | G Z
^x = Z
xc(?=[eiy]) = K S
xh = G Z:0.1
(?=y[aeiou])y = Y
^y = Y
z = Z
zz = Z
ze$ = Z
zh = ZH
zi(?=[ao]) = ZH:0.1
"""

_VOWELS = """
a = AE | AA:0.05 | EY:0.05 | AH:0.05 | EH:0.15 | AO:0.1
a$ = AH | AA
e = EH | IY:0.05 | IH:0.05 | AH:0.05 | EY:0.15
(?<=[^aeiou])e$ = - | IY:0.1 | EY:0.15
(?<=[^aeiou])e(?=[sd]$) = - | IH
e(?=[^aeiou]) = -:0.15
i = IH | AY:0.05 | AH:0.05 | IY:0.05
i(?=[aou]) = Y:0.05 | IY
o = AA | OW | AO | AH:0.05 | UW:0.1 | UH:0.15
u = AH | UW | Y UW | UH:0.05 | IH:0.2
u(?=[aeio]) = W:0.1
(?<!^)y = IH | IY | AY
y = IH:0.1 | AY:0.1 | IY:0.1
aa = AA | AE:0.1
ae = EY | IY:0.1 | EH:0.1
ah = AA | AH | AE:0.1
ai = EY | AY:0.1 | EH:0.1 | AE:0.2
aigh = EY
ao = AW:0.1 | EY OW
au = AO | AA | AW:0.05
augh = AO | AE F:0.1
aw = AO | AA
awe = AO
ay = EY | AY:0.1
aye = AY | EY
ea = IY | EH:0.05 | EY:0.1 | IY AH:0.05
eau = OW | Y UW:0.1
ee = IY | IH:0.1
eh = EH | AH:0.1 | EY:0.05
ei = IY | EY | AY:0.05
eigh = EY | AY:0.05
eu = UW | Y UW
ew = UW | Y UW
ewe = UW | Y UW
ey = EY | IY | AY:0.1
ia = IY AH | AY AH | AH:0.1
ie = IY | AY | EH:0.1 | IH:0.1 | AY AH:0.05 | IY AH:0.05
ieu = UW:0.1 | Y UW
igh = AY
ih = IH
io = IY OW | IY AH | AY AH | AY OW
oa = OW | AO:0.1
oe = OW | IY:0.1 | UW:0.1
oh = OW | AA:0.1
oi = OY
oo = UW | UH | AH:0.1
ou = AW | UW | AH:0.05 | UH:0.1 | OW:0.1
ough = AO | OW | UW:0.05 | AW:0.05 | AH F:0.1 | AO F:0.1
ow = AW | OW
owe = OW
oy = OY
ue = UW | Y UW | UH:0.1
uh = AH
ui = UW | IH:0.05 | AY:0.1
uy = AY
eye = AY
ye = AY | IY:0.1
ar = AA R | ER:0.1 | EH R:0.1 | AO R:0.1
arr = AE R | EH R | AA R
are = EH R | AA R
air = EH R
aire = EH R
aer = EH R
ayr = EH R
aur = AO R
er = ER | EH R:0.05 | IH R:0.05
err = EH R | ER
ere = IH R | EH R | ER:0.1
ear = IH R | ER | EH R | AA R:0.1
eer = IH R
eir = EH R | IH R:0.1
eur = ER | Y UH R
ir = ER | IH R:0.05
irr = IH R | ER
ire = AY ER
ier = IH R | IY ER | AY ER
or = AO R | ER:0.05
ore = AO R
oar = AO R
oor = AO R | UH R
our = AW ER | AW R | AO R | ER:0.05
ower = AW ER
ur = ER | UH R:0.05
urr = ER
ure = UH R | Y UH R | ER
yr = ER | IH R
yre = AY ER
ah(?=r) = AA
oll = OW L | AA L
all = AO L
"""

ENGLISH_RULES: tuple[str, ...] = tuple(line for line in (_CONSONANTS + _VOWELS).splitlines() if line.strip())
