"""The nouns, adjectives and verbs of the sample corpus: tables without grammar.

Every German word has one English word. In the tables an underscore stands for a space,
a hyphen for an empty cell, and commas separate tags. Tags describe the meaning of a
noun, so that verbs, adjectives and prepositions can be combined with sensible nouns.
"""

from collections import namedtuple
from typing import List

# `pronoun` is what English uses for one of them; `tags` is a frozenset of strings.
Noun = namedtuple(
    "Noun", "german gender genitive plural english plural_en pronoun tags"
)

# `stem` takes the endings (teuer -> teur-e); `more` and `more_en` are comparatives.
Adjective = namedtuple("Adjective", "german stem english more more_en tags")

# `infinitive` marks a separable prefix by "|"; `du` and `er` are present forms
# without it; `aux` is the auxiliary of the perfect; `phrase` names the kind of
# prepositional phrase that the verb takes, with "?" where it is optional.
Verb = namedtuple(
    "Verb",
    "infinitive du er participle aux english past subject direct indirect phrase",
)

TAG_FIELDS = ("tags", "subject", "direct", "indirect")


def read_rows(record: type, table: str) -> List[tuple]:
    """Return one `record` per line of `table`; tag fields become frozensets."""
    rows = []
    for line in table.strip().splitlines():
        cells = ["" if c == "-" else c.replace("_", " ") for c in line.split()]
        row = record(*cells)
        tags = {
            f: frozenset(filter(None, getattr(row, f).split(",")))
            for f in record._fields
            if f in TAG_FIELDS
        }
        rows.append(row._replace(**tags))
    return rows


NOUNS = read_rows(
    Noun,
    """
Anna     f Annas     -          Anna    -        she name
Lena     f Lenas     -          Lena    -        she name
Paul     m Pauls     -          Paul    -        he  name
Peter    m Peters    -          Peter   -        he  name
Arzt     m Arztes    Ärzte      doctor  doctors  he  person,adult
Bruder   m Bruders   Brüder     brother brothers he  person,child,family
Frau     f Frau      Frauen     woman   women    she person,adult
Freund   m Freundes  Freunde    friend  friends  he  person,adult,family
Freundin f Freundin  Freundinnen friend friends  she person,adult,family
Junge    m Jungen    Jungen     boy     boys     he  person,child
Kind     n Kindes    Kinder     child   children it  person,child
König    m Königs    Könige     king    kings    he  person,adult
Königin  f Königin   Königinnen queen   queens   she person,adult
Lehrer   m Lehrers   Lehrer     teacher teachers he  person,adult,family
Lehrerin f Lehrerin  Lehrerinnen teacher teachers she person,adult,family
Mädchen  n Mädchens  Mädchen    girl    girls    she person,child
Mann     m Mannes    Männer     man     men      he  person,adult
Mutter   f Mutter    Mütter     mother  mothers  she person,adult,unique
Nachbar  m Nachbarn  Nachbarn   neighbour neighbours he person,adult,family
Onkel    m Onkels    Onkel      uncle   uncles   he  person,adult,family
Polizist m Polizisten Polizisten policeman policemen he person,adult
Schwester f Schwester Schwestern sister sisters  she person,child,family
Sohn     m Sohnes    Söhne      son     sons     he  person,child,family
Student  m Studenten Studenten  student students he  person
Tante    f Tante     Tanten     aunt    aunts    she person,adult,family
Tochter  f Tochter   Töchter    daughter daughters she person,child,family
Vater    m Vaters    Väter      father  fathers  he  person,adult,unique
Hund     m Hundes    Hunde      dog     dogs     it  animal,pet
Katze    f Katze     Katzen     cat     cats     it  animal,pet
Kuh      f Kuh       Kühe       cow     cows     it  animal
Maus     f Maus      Mäuse      mouse   mice     it  animal
Pferd    n Pferdes   Pferde     horse   horses   it  animal,pet
Schaf    n Schafes   Schafe     sheep   sheep    it  animal
Vogel    m Vogels    Vögel      bird    birds    it  animal
Apfel    m Apfels    Äpfel      apple   apples   it  food,ripe
Brötchen n Brötchens Brötchen   roll    rolls    it  food,baked
Ei       n Eies      Eier       egg     eggs     it  food
Kuchen   m Kuchens   Kuchen     cake    cakes    it  food,baked
Brot     n Brotes    -          bread   -        it  mass,meal,baked
Fleisch  n Fleisches -          meat    -        it  mass,meal
Käse     m Käses     -          cheese  -        it  mass,meal
Suppe    f Suppe     -          soup    -        it  mass,meal
Kaffee   m Kaffees   -          coffee  -        it  mass,drink
Milch    f Milch     -          milk    -        it  mass,drink
Tee      m Tees      -          tea     -        it  mass,drink
Wasser   n Wassers   -          water   -        it  mass,drink
Ball     m Balles    Bälle      ball    balls    it  thing,colour
Bild     n Bildes    Bilder     picture pictures it  thing,picture
Blume    f Blume     Blumen     flower  flowers  it  plant,colour,picture
Flasche  f Flasche   Flaschen   bottle  bottles  it  thing,colour
Geschenk n Geschenks Geschenke  present presents it  thing
Gitarre  f Gitarre   Gitarren   guitar  guitars  it  thing,device
Kamera   f Kamera    Kameras    camera  cameras  it  thing,device
Lampe    f Lampe     Lampen     lamp    lamps    it  thing,device,colour
Messer   n Messers   Messer     knife   knives   it  thing
Regenschirm m Regenschirms Regenschirme umbrella umbrellas it thing,device,colour
Schlüssel m Schlüssels Schlüssel key    keys     it  thing
Brief    m Briefes   Briefe     letter  letters  it  text,written,post
Buch     n Buches    Bücher     book    books    it  text,written,thing
Geschichte f Geschichte Geschichten story stories it text,written,tale
Zeitung  f Zeitung   Zeitungen  newspaper newspapers it text,thing
Hemd     n Hemdes    Hemden     shirt   shirts   it  thing,clothes,colour
Hut      m Hutes     Hüte       hat     hats     it  thing,clothes,colour
Kleid    n Kleides   Kleider    dress   dresses  it  thing,clothes,colour
Mantel   m Mantels   Mäntel     coat    coats    it  thing,clothes,colour
Schuh    m Schuhs    Schuhe     shoe    shoes    it  thing,clothes,colour,pair
Auto     n Autos     Autos      car     cars     it  vehicle,device,colour
Fahrrad  n Fahrrads  Fahrräder  bicycle bicycles it  vehicle,device,colour
Koffer   m Koffers   Koffer     suitcase suitcases it thing,box,lid,colour
Tasche   f Tasche    Taschen    bag     bags     it  thing,box,lid,colour
Bank     f Bank      Bänke      bench   benches  it  furniture,seat
Bett     n Bettes    Betten     bed     beds     it  furniture,seat,cover
Stuhl    m Stuhls    Stühle     chair   chairs   it  furniture,seat,colour
Tisch    m Tisches   Tische     table   tables   it  furniture,top,cover
Baum     m Baumes    Bäume      tree    trees    it  cover,landmark,picture
Brücke   f Brücke    Brücken    bridge  bridges  it  cover,place
Bibliothek f Bibliothek Bibliotheken library libraries it place,inside,landmark
Dorf     n Dorfes    Dörfer     village villages it  place,inside,home,wide
Garten   m Gartens   Gärten     garden  gardens  it  place,inside,wide
Haus     n Hauses    Häuser     house   houses   it  place,inside,home,landmark
Kino     n Kinos     Kinos      cinema  cinemas  it  place,inside,landmark
Kirche   f Kirche    Kirchen    church  churches it  place,inside,landmark
Küche    f Küche     Küchen     kitchen kitchens it  place,inside,room
Museum   n Museums   Museen     museum  museums  it  place,inside,landmark
Park     m Parks     Parks      park    parks    it  place,inside,wide
Restaurant n Restaurants Restaurants restaurant restaurants it place,inside,landmark
Schule   f Schule    Schulen    school  schools  it  place,inside,landmark
Stadt    f Stadt     Städte     city    cities   it  place,inside,home,wide
Wald     m Waldes    Wälder     forest  forests  it  place,inside,wide
Zimmer   n Zimmers   Zimmer     room    rooms    it  place,inside,room
Bahnhof  m Bahnhofs  Bahnhöfe   station stations it  place,stop,landmark
See      m Sees      Seen       lake    lakes    it  place,stop,shore
Strand   m Strandes  Strände    beach   beaches  it  place,stop,shore
Fenster  n Fensters  Fenster    window  windows  it  lid,opening
Tür      f Tür       Türen      door    doors    it  lid,opening
""",
)

ADJECTIVES = read_rows(
    Adjective,
    """
alt       alt       old       älter     older    adult,animal,thing,place,furniture
arm       arm       poor      ärmer     poorer   person
billig    billig    cheap     billiger  cheaper  thing,vehicle,furniture
blau      blau      blue      -         -        colour
dunkel    dunkl     dark      dunkler   darker   room,wide
fleißig   fleißig   hard-working fleißiger -     person
frisch    frisch    fresh     frischer  fresher  food,mass
glücklich glücklich happy     glücklicher happier person
groß      groß      big       größer    bigger   animal,food,thing,place,furniture
grün      grün      green     -         -        colour,ripe
hungrig   hungrig   hungry    hungriger hungrier person,animal
interessant interessant interesting -   -        text
jung      jung      young     jünger    younger  person,animal
kalt      kalt      cold      kälter    colder   drink,meal
kaputt    kaputt    broken    -         -        device
klein     klein     small     kleiner   smaller  child,animal,food,thing,place,furniture
klug      klug      clever    klüger    cleverer person
krank     krank     sick      -         -        person,animal
lang      lang      long      länger    longer   text
müde      müd       tired     -         -        person,animal
nett      nett      nice      netter    nicer    person
neu       neu       new       neuer     newer    thing,vehicle,furniture
reich     reich     rich      reicher   richer   person
rot       rot       red       -         -        colour,ripe
ruhig     ruhig     quiet     ruhiger   quieter  place
schmutzig schmutzig dirty     -         -        clothes,vehicle,room
schön     schön     beautiful schöner   more_beautiful thing,plant,place
schwarz   schwarz   black     -         -        colour,animal
schwer    schwer    heavy     schwerer  heavier  box,furniture
stark     stark     strong    stärker   stronger person
süß       süß       sweet     süßer     sweeter  food
teuer     teur      expensive teurer    more_expensive thing,vehicle,furniture
traurig   traurig   sad       trauriger sadder   person
warm      warm      warm      wärmer    warmer   drink,meal,clothes
weiß      weiß      white     -         -        colour,animal
""",
)

VERBS = read_rows(
    Verb,
    """
an|kommen  kommst    kommt    angekommen  s arrive   arrived  person - - at?
arbeiten   arbeitest arbeitet gearbeitet  h work     worked   person - - place?
auf|stehen stehst    steht    aufgestanden s get_up  got      person - - -
ein|schlafen schläfst schläft eingeschlafen s fall_asleep fell living - - place?
kochen     kochst    kocht    gekocht     h cook     cooked   person - - for?
lachen     lachst    lacht    gelacht     h laugh    laughed  person - - -
schlafen   schläfst  schläft  geschlafen  h sleep    slept    living - - place?
sich_aus|ruhen ruhst ruht     ausgeruht   h rest     rested   person - - place?
sich_beeilen beeilst beeilt   beeilt      h hurry    hurried  person - - -
singen     singst    singt    gesungen    h sing     sang     person - - with?
spielen    spielst   spielt   gespielt    h play     played   person - - with?
tanzen     tanzt     tanzt    getanzt     h dance    danced   person - - with?
warten     wartest   wartet   gewartet    h wait     waited   person - - at?
weinen     weinst    weint    geweint     h cry      cried    person - - -
ab|holen   holst     holt     abgeholt    h pick_up  picked   person person - -
an|rufen   rufst     ruft     angerufen   h call     called   person person - -
an|ziehen  ziehst    zieht    angezogen   h put_on   put      person clothes - -
auf|räumen räumst    räumt    aufgeräumt  h tidy     tidied   person room - -
backen     bäckst    bäckt    gebacken    h bake     baked    person baked - for?
bekommen   bekommst  bekommt  bekommen    h get      got      person gift - from?
besuchen   besuchst  besucht  besucht     h visit    visited  person visited - -
brauchen   brauchst  braucht  gebraucht   h need     needed   person goods - -
ein|laden  lädst     lädt     eingeladen  h invite   invited  person person - -
essen      isst      isst     gegessen    h eat      ate      person edible - place?
finden     findest   findet   gefunden    h find     found    person findable - place?
fragen     fragst    fragt    gefragt     h ask      asked    person person - -
füttern    fütterst  füttert  gefüttert   h feed     fed      person animal - -
haben      hast      hat      gehabt      h have     had      person owned - -
kaufen     kaufst    kauft    gekauft     h buy      bought   person goods - for?
kennen     kennst    kennt    gekannt     h know     knew     person person - -
lesen      liest     liest    gelesen     h read     read     person text - place?
lieben     liebst    liebt    geliebt     h love     loved    person loved - -
malen      malst     malt     gemalt      h paint    painted  person picture - for?
mit|nehmen nimmst    nimmt    mitgenommen h take     took     person thing - -
öffnen     öffnest   öffnet   geöffnet    h open     opened   person lid - -
putzen     putzt     putzt    geputzt     h clean    cleaned  person cleaned - -
reparieren reparierst repariert repariert h repair   repaired person device - for?
schreiben  schreibst schreibt geschrieben h write    wrote    person written - place?
sehen      siehst    sieht    gesehen     h see      saw      living visible - place?
suchen     suchst    sucht    gesucht     h look_for looked   living findable - place?
tragen     trägst    trägt    getragen    h wear     wore     person clothes - -
treffen    triffst   trifft   getroffen   h meet     met      person person - place?
trinken    trinkst   trinkt   getrunken   h drink    drank    person drink - place?
vergessen  vergisst  vergisst vergessen   h forget   forgot   person thing - -
verkaufen  verkaufst verkauft verkauft    h sell     sold     person goods - -
verlieren  verlierst verliert verloren    h lose     lost     person thing - place?
verstecken versteckst versteckt versteckt h hide     hid      person thing - under?
verstehen  verstehst versteht verstanden  h understand understood person person - -
waschen    wäschst   wäscht   gewaschen   h wash     washed   person washed - -
weg|werfen wirfst    wirft    weggeworfen h throw_away threw  person waste - -
zu|machen  machst    macht    zugemacht   h close    closed   person lid - -
antworten  antwortest antwortet geantwortet h answer answered person - person -
danken     dankst    dankt    gedankt     h thank    thanked  person - person -
folgen     folgst    folgt    gefolgt     s follow   followed living - living -
gehören    gehörst   gehört   gehört      h belong_to belonged owned - person -
helfen     hilfst    hilft    geholfen    h help     helped   person - person -
zu|hören   hörst     hört     zugehört    h listen_to listened person - person -
bringen    bringst   bringt   gebracht    h bring    brought  person brought person -
erzählen   erzählst  erzählt  erzählt     h tell     told     person tale person -
geben      gibst     gibt     gegeben     h give     gave     person brought person -
leihen     leihst    leiht    geliehen    h lend     lent     person lent person -
schicken   schickst  schickt  geschickt   h send     sent     person sent person -
zeigen     zeigst    zeigt    gezeigt     h show     showed   person visible person -
fahren     fährst    fährt    gefahren    s drive    drove    person - - to
gehen      gehst     geht     gegangen    s go       went     person - - into
kommen     kommst    kommt    gekommen    s come     came     person - - out
laufen     läufst    läuft    gelaufen    s run      ran      living - - through
legen      legst     legt     gelegt      h put      put      person thing - onto
liegen     liegst    liegt    gelegen     h lie      lay      thing - - on
sitzen     sitzt     sitzt    gesessen    h sit      sat      living - - on
stehen     stehst    steht    gestanden   h stand    stood    standing - - near
wohnen     wohnst    wohnt    gewohnt     h live     lived    person - - home
""",
)
SPEECH = read_rows(
    Verb,
    """
fragen fragst fragt gefragt h ask  asked person - - -
hoffen hoffst hofft gehofft h hope hoped person - - -
sagen  sagst  sagt  gesagt  h say  said  person - - -
wissen weißt  weiß  gewusst h know knew  person - - -
""",
)

# `sein` takes a predicate, not an object; its past is war, as that of haben is hatte.
COPULA = Verb("sein", "bist", "ist", "gewesen", "s", "be", "was", (), (), (), "")

# Tags of verbs that stand for several tags of nouns.
CLASSES = {
    "living": "person,name,animal",
    "person": "person,name",
    "goods": "thing,food,mass,vehicle,plant",
    "edible": "food,meal",
    "owned": "thing,pet,vehicle",
    "gift": "thing,plant,post",
    "visited": "person,name",
    "findable": "thing,post,animal,person,name",
    "loved": "person,name,pet",
    "brought": "thing,food,mass,plant",
    "cleaned": "room,lid",
    "washed": "clothes,vehicle,pet",
    "waste": "thing,food",
    "visible": "animal,person,name,place,thing,vehicle,landmark",
    "lent": "thing,vehicle,text",
    "sent": "thing,plant,post",
    "standing": "person,name,vehicle,animal",
}
