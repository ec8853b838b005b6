"""The vocabulary of H-TEST items: this project's word lists.

Lists that separate the groups of a task (vowel and consonant nouns, ``-ly`` and other adverbs) are used in
*both* groups, at another position in the sentence, so no word gives a label away. Places intentionally range
from six to more than forty letters. An item's length then says almost nothing about the short element that a
rule is about (``seven`` or ``7``, ``plus`` or ``+``).
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(";"))


# Singular nouns whose first letter and first sound are both a vowel.
VOWEL_NOUNS = _words(
    """
    abbot accordion actor admiral agent alchemist alderman almond ambassador anchor ant antelope apprentice
    apricot archer architect armchair attic auctioneer axe earthworm editor eel elf elk elm emperor emu
    envelope envoy essay examiner icicle igloo inkwell innkeeper inspector inventor invoice iris ivory
    oak oar oboe officer olive onion orchard organist ostrich otter outlaw oven overcoat oyster umpire uncle
    understudy upholsterer usher
    """
)

# Singular nouns whose first letter is a consonant (no "y", no silent "h").
CONSONANT_NOUNS = _words(
    """
    badger baker banjo barber beekeeper beetle bishop blacksmith boat bucket butcher cactus candle captain
    carpenter caterpillar cobbler compass cricket dentist donkey drummer falcon farmer ferry fiddler fox
    gardener ghost goose grandfather hamster hedgehog heron jar juggler kettle lantern librarian lobster
    magician marmot mechanic merchant minister moth nightingale nurse parrot photographer piano pilot plumber
    pony porcupine postman potter rabbit sailor salamander shepherd shoemaker spider statue tailor teapot
    tiger tortoise trumpeter tugboat violinist waiter walrus watchmaker weasel wheelbarrow zebra
    """
)

NOUNS = VOWEL_NOUNS + CONSONANT_NOUNS

# Third person singular, with an object and without.
TRANSITIVE_VERBS = _words(
    """
    admires answers applauds blames borrows calls chases copies describes draws envies escorts examines
    fears finds follows forgives greets helps hides imagines imitates inspects interrupts invites joins
    leads mentions misses mocks moves notices praises pulls remembers rescues sees sketches studies thanks
    touches trusts visits wakes warns watches welcomes
    """
)
INTRANSITIVE_VERBS = _words(
    """
    arrives argues blinks bows coughs crawls daydreams dines drifts fidgets frowns giggles gossips grins
    hesitates hops hums improvises kneels laughs leans limps lingers meditates mumbles mutters naps nods
    pauses pedals plays prays rests rows sails shivers sighs sits skates skips smiles sneezes snores sobs
    stands stumbles swims trembles trips waits wanders waves weeps whispers whistles winks works yawns
    """
)

ADVERBS_LY = _words(
    """
    abruptly absently amiably anxiously apologetically awkwardly bashfully blindly boldly bravely briefly
    busily calmly casually cautiously cheerfully clumsily coldly comically courageously cruelly curiously
    daintily deeply defiantly dreamily drowsily dutifully earnestly elegantly faintly fiercely fondly
    frantically generously gently gladly gloomily gratefully grimly harshly hastily honestly humbly idly
    impatiently innocently jealously joyfully keenly kindly lazily loudly loyally merrily modestly nervously
    nobly oddly openly patiently peacefully playfully politely proudly quaintly reluctantly rudely sadly
    secretly sensibly seriously sheepishly shyly silently sincerely sleepily solemnly sternly stubbornly
    suspiciously sweetly tenderly thoughtfully timidly vaguely warmly wearily wildly wisely
    """
)

# Adverbs of manner, place and time that do not end in "ly".
ADVERBS_PLAIN = _words(
    """
    abroad afterwards again alone aloud anyhow anyway apart around ashore aside away backwards barefoot
    beforehand bareheaded clockwise downhill downstairs downstream elsewhere eastwards everywhere forever
    halfway headlong hereabouts homewards indoors inland meanwhile midway nearby nonstop
    northwards nowadays offshore often outdoors outside overboard overhead overnight overseas regardless
    sideways skywards sometimes somehow somewhere soon southwards thereabouts today together tomorrow tonight
    underfoot underground underwater upstairs upstream uptown westwards yesterday
    """
)

PLACES = _phrases(
    """
    at sea; at home; by noon; in bed; in fog; up north; on deck; at dusk; at work; in court; on stage;
    at lunch; by train; after tea; in the rain; on the roof; by the pond; at the gate; in the barn;
    near the well; on the bridge; in the cellar; at the market; by the window; under the desk;
    behind the shed; after breakfast; near the fountain; across the meadow; during the concert;
    beside the campfire; along the towpath; between the shelves; outside the bakery; inside the old mill;
    above the coffee shop; before the thunderstorm; beneath the apple trees; around the frozen lake;
    opposite the post office; in front of the town hall; at the foot of the mountain;
    in the shade of a chestnut tree; on the far side of the harbour; during the last week of autumn;
    behind the abandoned railway station; at the back of a crowded waiting room;
    under the painted ceiling of the chapel; on the way home from a birthday party;
    between the greenhouse and the garden wall; in the corner of the upstairs reading room;
    on the narrow path along the edge of the cliff; beside the stall that sells bread and honey;
    near the place where the river meets the sea; in the middle of a long and boring meeting;
    outside the shop where they mend old clocks
    """
)

# Countable things, in the plural.
PLURALS = _words(
    """
    acorns baskets blankets bottles bricks buttons cabbages candles carpets carrots chairs coins cushions
    daffodils envelopes feathers forks gloves hammers hats keys kites ladders lamps lemons marbles mirrors
    mittens mugs nails needles notebooks oars paintbrushes pancakes parcels pears pebbles pencils pianos
    pillows plates postcards potatoes pumpkins ribbons ropes saucepans screws shells socks spoons stamps
    stools suitcases sunflowers teacups tents tickets tomatoes trumpets turnips umbrellas walnuts wheels
    """
)

# One-word numbers with their digits. "one" is left out because its noun would be singular. The longest words
# (seventeen, seventy …) are left out so that spelling a number hardly changes an item's length.
NUMBERS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "eighty": 80, "ninety": 90,
}  # fmt: skip

# Operators as a word and as a symbol; both are one token.
MATH_OPERATORS = {
    "plus": "+", "minus": "-", "times": "*", "over": "/", "modulo": "%", "equals": "=", "exceeds": ">",
    "below": "<",
}  # fmt: skip

MATH_QUANTITIES = _phrases(
    """
    mean; area; root; slope; cosine; radius; volume; median; divisor; average; logarithm; remainder;
    perimeter; numerator; cube root; inner sum; arc length; outer ring; first prime; half angle;
    inverse matrix; longest diagonal; absolute value; common difference; unknown variable;
    leading coefficient; denominator of the fraction; gradient of the curve; surface of the sphere;
    height of the triangle; shortest side of the kite; variance of the whole sample;
    distance from the origin; determinant of the small matrix; largest root of the polynomial;
    rounded result of the long division; sum of the angles in the polygon;
    number of edges in the connected graph; limit of the sequence of partial sums;
    integral of the curve along the axis; tangent of the angle at the highest vertex;
    derivative of the inner function; product of the odd numbers in the left column;
    greatest common divisor of both unknown numbers; probability that the sum of both dice is even
    """
)

MATH_CONTEXTS = _phrases(
    """
    here; again; today; at last; by chance; on the slide; in this table; on the last page;
    in the final draft; on the whiteboard; according to the answer key; in the margin of the notebook;
    at the bottom of the exam paper; in the proof that nobody finished;
    in the example that the teacher gave us; on the crumpled sheet in the wastepaper basket
    """
)

# Compounds that can be written with or without hyphens.
COMPOUNDS = _phrases(
    """
    absent-minded clerk; bad-tempered landlord; best-selling novelist; broken-hearted singer;
    brother-in-law; brown-eyed calf; camera-shy guest; cold-blooded lizard; cross-country runner;
    curly-haired toddler; double-decker bus; down-to-earth mayor; easy-going neighbour; empty-handed thief;
    ever-present cousin; fair-haired sister; far-sighted banker; fast-paced story; father-in-law;
    forget-me-not; four-leaf clover; free-range hen; full-length mirror; good-natured giant;
    hand-painted vase; hard-working student; high-pitched alarm; home-made jam; ice-cold lemonade;
    jack-of-all-trades; kind-hearted widow; know-it-all; last-minute traveller; left-handed painter;
    life-sized puppet; light-footed dancer; long-forgotten song; long-legged stork; low-lying cloud;
    merry-go-round; mother-of-pearl brooch; much-loved aunt; narrow-minded critic; never-ending queue;
    off-duty guard; old-fashioned radio; open-air cinema; out-of-work actor; passer-by; quick-witted lawyer;
    razor-sharp knife; red-faced referee; right-angled shelf; run-down cottage; second-hand sofa;
    self-taught chef; short-lived romance; sister-in-law; slow-moving tram; snow-covered sledge;
    soft-spoken judge; strong-willed queen; sugar-free biscuit; sun-dried tomato; tailor-made jacket;
    thick-skinned rhino; time-honoured custom; top-secret letter; water-resistant watch; well-behaved puppy;
    well-read nephew; wide-awake owl; world-famous tenor
    """
)

# Common words for rhymes: families of sounds, each spelled in as many ways as possible.
RHYME_WORDS = _words(
    """
    day way say play stay gray pray weigh sleigh they prey neigh clay tray spray sway obey ballet bouquet
    see tree free key tea sea flea ski plea agree knee pea bee debris fee glee plead
    sky fly try high sigh thigh pie lie die tie buy guy eye dye rye why shy cry spy fry apply deny supply
    go toe snow grow blow know though dough sew throw slow crow hoe foe owe woe glow below ago plateau
    blue shoe two few true through zoo stew threw crew flew clue glue canoe queue chew screw bamboo taboo
    bear care chair hair fair stair square pear heir prayer glare scare spare flare beware affair compare
    ear near fear beer deer steer clear pier sphere cheer severe weird gear spear peer souvenir career veneer
    door floor four more store roar core war bore shore pour soar oar chore ignore before adore
    mail pale whale scale tail veil nail snail trail jail exhale detail braille gale prevail
    rain lane vein reign plane train chain crane brain pain stain complain champagne cocaine campaign explain
    late gate eight weight plate straight wait freight state great fate debate create skate slate estate
    make break steak cake lake snake ache shake mistake awake flake rake opaque
    meat feet eat sweet treat wheat heat seat receipt complete concrete athlete elite repeat street sheet
    deep sleep heap cheap sheep weep leap asleep sweep jeep creep
    green clean machine scene mean queen bean marine screen routine sardine between tangerine
    meal feel steel heel deal seal real peel ideal conceal reveal wheel automobile
    seize freeze knees trees breeze cheese sneeze squeeze keys bees peas disease trapeze these tease
    peach beach speech teach reach leech breach screech
    team dream cream scheme theme steam extreme supreme beam stream seem regime
    need read feed bead weed seed speed creed stampede precede succeed proceed centipede
    night bite kite height white light sight fight quite byte polite invite tonight delight knight
    line sign fine pine wine mine design shine nine spine assign align benign decline divine
    time climb rhyme lime dime crime chime sublime
    side wide tide guide pride ride cried tried decide dyed sighed hide allied
    rise prize eyes size wise flies skies tries sighs disguise surprise guys
    fire choir wire tire flyer liar buyer higher dryer supplier
    bone stone phone loan grown moan blown tone thrown zone alone throne unknown
    boat note coat vote goat wrote float quote moat remote devote throat
    hole coal bowl roll soul goal whole pole stroll role control patrol
    rose nose toes those knows goes froze doze chose arose suppose propose
    road code toad mode glowed rowed slowed owed load explode erode
    home foam comb dome chrome roam gnome poem tome
    boot fruit suit flute cute newt scoot salute recruit pursuit shoot dispute
    moon tune june soon prune spoon dune balloon cartoon immune raccoon maroon
    cool rule school mule fool pool tool ridicule
    choose shoes news whose bruise snooze cruise fuse clues views refuse
    food rude mood chewed glued crude brewed attitude
    sun one done fun ton son run none begun gun
    come some thumb gum drum numb plum become crumb
    blood mud flood bud thud rough tough stuff cuff enough puff bluff
    love glove above dove shove
    bird word heard third herd blurred stirred absurd
    her fur stir blur sir purr prefer occur
    learn turn burn fern earn urn return concern
    dirt hurt shirt skirt alert desert flirt expert
    earth birth worth mirth nurse purse verse curse worse rehearse
    girl pearl curl world whirl swirl squirrel work clerk jerk perk
    law saw draw straw claw jaw caught taught brought thought fought bought
    ball call tall crawl haul small shawl install walk talk chalk hawk
    short sport fort quart wart support report horse course force source
    board lord sword cord ward toward reward afford horn torn warn mourn corn born
    bed head said red bread fed led shed spread instead thread
    net debt sweat threat wet regret forget cadet silhouette cigarette roulette
    pen when ten men again hen then friend end send bend tend defend
    guest best west chest pressed guessed test request dressed dress guess yes less success
    list missed fist wrist kissed twist resist assist mist
    hill bill still until mill quill skill trick sick brick quick
    joy boy toy noise boys toys coin join
    cow now bough plow brow shout doubt out about scout trout without
    town brown noun frown crown down loud crowd cloud bowed proud
    flower power sour tower shower hour devour scour
    house mouse blouse grouse sound round crowned drowned ground
    money funny honey sunny bunny letter better sweater debtor wetter water daughter
    table label cable stable able pleasure treasure measure middle riddle fiddle
    mother brother other another smother feather weather leather heather whether together
    lazy daisy crazy hazy berry very cherry ferry bury dairy fairy
    nation station vacation relation motion ocean lotion notion devotion
    muscle hustle tussle rustle turtle hurdle fertile ladder sadder bladder
    color duller cellar dweller teller seller sailor trailer tailor failure
    bottle model rubble double trouble bubble stubble humble crumble tumble
    sister blister mister twister winter printer splinter
    dollar scholar collar taller holler caller summer drummer plumber hummer newcomer
    pirate climate private island silent violin tulip
    rocket pocket socket locket docket bucket basket
    singing bringing ringing crying flying trying dying buying
    city pity pretty witty kitty committee gritty
    ready steady heady already eddy spaghetti confetti sweaty
    paper vapor taper caper neighbor labor favor flavor waiver savor
    """
)
