// Words of the source that the translation perhaps left out, and why.

// A source word was perhaps left out if without it the log-probability of the translation falls
// by less than this; see docs/seeing.md for how often that is right.
const LEFT_OUT = -0.3;
const LEFT_OUT_LETTERS = 4; // a run of such words has a longer one that is not frequent
const FREQUENT = 0.1; // the share of the vocabulary, from its beginning, that is frequent
const ALIGNED = 0.5; // of the largest weight of a source word, above which a word belongs to it
const COVERED = 0.5; // of the largest gain of attention, with which a translation has the words

// Runs of source words that the translation does not need, each a list of indices. `without`:
// the effect of each word. isRare: whether a word is a content word.
function findLeftOut(without, isRare) {
  const runs = [];
  let run = [];
  [...without, null].forEach((row, i) => {
    if (row && row.reduce((a, b) => a + b, 0) > LEFT_OUT) {
      run.push(i);
    } else {
      runs.push(run);
      run = [];
    }
  });
  return runs.filter((indices) => indices.some(isRare));
}

// Whether a source word is long, and no frequent one such as an article: the pieces of a
// vocabulary are sorted by frequency.
function isRareWord(inspection, i) {
  const { words, pieces, ids, spans } = inspection.data.source;
  const [start, end] = spans[i];
  const places = Array.from({ length: end - start }, (_, j) => start + j).filter((place) => /[\p{L}\p{N}]/u.test(pieces[place]));
  const isFrequent = places.length === 1 && ids[places[0]] < FREQUENT * page.models[inspection.model].sourceVocabulary;
  return (words[i].match(/[\p{L}\p{N}]/gu) ?? []).length > LEFT_OUT_LETTERS && !isFrequent;
}

// The runs as buttons that explain why they were left out.
function makeLeftOut(inspection, runs) {
  return runs.flatMap((run, i) => {
    const text = quote(run.map((place) => inspection.data.source.words[place]).join(" ").replace(/[.,;:!?]$/, ""));
    const button = makeElement("button", { type: "button", class: "small", lang: languageOf("source"), title: say`Why was it left out?`, onclick: () => explainLeftOut(run, text) }, text);
    return [i ? ", " : "", page.source.isFrozen ? text : button];
  });
}

// Expect a translation that has the words of a run, and show what became of it.
async function explainLeftOut(run, text) {
  const { inspection } = page;
  const looking = new AbortController();
  stopLooking();
  whyNot.looking = looking;
  showStatus(say`Looking for a translation with ${text} …`);
  try {
    const other = await translateWith(inspection, run, looking.signal);
    whyNot.looking = null;
    showStatus(other ? "" : say`The model has no translation with ${text}.`);
    if (other && page.inspection === inspection) {
      expect(textOf(other), other.data.target.ids.slice(0, -1));
      byId("why").scrollIntoView({ block: "start" });
      byId("expected").focus({ preventScroll: true });
    }
  } catch (error) {
    if (!looking.signal.aborted) {
      whyNot.looking = null;
      showStatus(describeError(error), true);
    }
  }
}

// A later wish of the reader, such as another expected translation, replaces this one.
function stopLooking() {
  if (whyNot.looking) {
    whyNot.looking.abort();
    whyNot.looking = null;
    showStatus("");
  }
}

// The inspection of a translation that has the words of a run. The model goes on with each of
// the likeliest words for their place; of the translations that attend more to them, the one
// with the best score.
async function translateWith(inspection, run, signal) {
  const { text, model } = inspection;
  const others = [];
  for (const choice of await page.source.listWords(inspection, placeOfRun(inspection, run))) {
    if (!choice.isEnd) {
      const other = await page.source.inspect({ text, model, prefix: choice.ids, target: null, padding: 0 }, signal);
      others.push({ other, gain: gainAttention(inspection, other, run) });
    }
  }
  const largest = Math.max(...others.map(({ gain }) => gain));
  const candidates = others.filter(({ gain }) => gain > 0 && gain >= COVERED * largest);
  const score = ({ other }) => other.data.nBest[0].score;
  return candidates.sort((a, b) => score(b) - score(a))[0]?.other ?? null;
}

// The index of the word of the translation before which the words of a run belong: after the
// last word that attends to the source word before them.
function placeOfRun(inspection, [first]) {
  const weights = first ? attentionTo(inspection, first - 1) : [0];
  const largest = Math.max(...weights);
  return first ? weights.findLastIndex((weight) => weight >= ALIGNED * largest) + 1 : 0;
}

// How much more another translation attends to the words of a run.
function gainAttention(inspection, other, run) {
  const sum = (translation, i) => attentionTo(translation, i).reduce((a, b) => a + b, 0);
  return run.reduce((gain, i) => gain + Math.max(0, sum(other, i) - sum(inspection, i)), 0);
}

// The attention of each word of the translation, without its end, to a source word.
function attentionTo(inspection, column) {
  const { rows, columns, values } = inspection.matrix("cross", inspection.layersOf("cross") - 1, "mean", true);
  return Array.from({ length: rows - 1 }, (_, row) => values[row * columns + column]);
}
