// "Why not …?": a translation that was expected, and what became of it in the search.

const EXPLAIN_PAUSE = 400; // milliseconds after the last key
const ordinalRules = new Intl.PluralRules("en", { type: "ordinal" });

// What the tab shows: `key` tells for which sentence, model and expected translation.
// `ids` are those of `view.expected`, if it is one of the n best. `looking` aborts the search
// for a translation with words that were left out.
const whyNot = { key: "", ids: null, explanation: null, request: null, timer: 0, looking: null };

function formatOrdinal(number) {
  const text = formatNumber(number, 0);
  return {
    one: () => say`${text}st`,
    two: () => say`${text}nd`,
    few: () => say`${text}rd`,
    other: () => say`${text}th`,
  }[ordinalRules.select(number)]();
}

function showWhyNot() {
  byId("expected").lang = languageOf("target") ?? "";
  if (document.activeElement !== byId("expected")) {
    byId("expected").value = view.expected;
  }
  explainExpected();
  showTests();
  showLearned();
}

// Expect a translation, given as text, and as ids if it is one of the n best.
function expect(text, ids = null) {
  stopLooking();
  Object.assign(view, { expected: text, tab: "why-not" });
  Object.assign(whyNot, { ids, key: "" });
  byId("expected").value = text;
  writeLink();
  showWhy();
}

// The button beside one of the n best.
function makeWhyNotButton({ text, ids }) {
  const explain = () => {
    expect(text, ids);
    byId("why").scrollIntoView({ block: "start" });
    byId("expected").focus({ preventScroll: true });
  };
  return makeElement("button", { type: "button", class: "small", "aria-label": say`Why not ${quote(text)}?`, onclick: explain }, say`Why not?`);
}

// Ask what became of the expected translation, unless that is shown.
async function explainExpected() {
  const { text, model } = page.inspection;
  const key = JSON.stringify([text, page.models[model].name, view.expected.trim()]);
  if (key === whyNot.key) {
    showExplanation();
    return;
  }
  whyNot.request?.abort();
  whyNot.request = new AbortController();
  Object.assign(whyNot, { key, explanation: null });
  showExplanation();
  if (view.expected.trim()) {
    byId("verdict").textContent = say`Reading the search …`;
    try {
      const target = whyNot.ids ?? view.expected;
      const explanation = await page.source.explain({ text, model, target }, whyNot.request.signal);
      if (key === whyNot.key) {
        whyNot.explanation = explanation;
        showExplanation();
      }
    } catch (error) {
      if (error.name !== "AbortError") {
        whyNot.key = ""; // the next drawing asks again
        byId("verdict").textContent = describeError(error);
      }
    }
  }
}

function showExplanation() {
  const { explanation } = whyNot;
  byId("deciding").textContent = explanation ? describeParting(explanation) : "";
  byId("verdict").textContent = explanation ? describeVerdict(explanation) : "";
  byId("expected-score").textContent = explanation ? describeScores(explanation) : "";
  replaceChildren(byId("expected-words"), explanation ? makeExpectedWords(explanation, view.byWords) : []);
  byId("expected-note").hidden = !explanation;
}

// Where an expected translation parts from the best one; "" if it is the best one.
function describeParting({ target, bestTarget }) {
  const place = target.ids.findIndex((id, i) => id !== bestTarget.ids[i]);
  const [word, other] = [target, bestTarget].map(({ words, spans }) => quote(words[spans.findIndex(([, end]) => place < end)]));
  return place < 0 ? "" : say`It parts from the best translation at ${word}, where that has ${other}.`;
}

// One sentence that says why the translation is not the best one. A rank is that of the
// piece, which stands under its word, too, unless the sentence says that of a hypothesis.
function describeVerdict({ target, score, bestScore, verdict }) {
  const { kind, step, rank, limit, behind } = verdict;
  const word = namePiece(target, step - 1);
  const scores = [score, bestScore].map((number) => formatNumber(number, 3));
  return {
    best: () => say`This is the best translation.`,
    n_best: () => say`It is the ${formatOrdinal(rank)} of the n best: its score ${scores[0]} lost to ${scores[1]}.`,
    beaten: () => say`Never dropped, but its score ${scores[0]} lost to ${scores[1]}.`,
    dropped: () => limit === 1
      ? say`Dropped at step ${step}: ${word} was ${formatOrdinal(rank)}, and only the first piece is kept; ${formatNumber(behind)} behind.`
      : say`Dropped at step ${step}: with ${word}, the hypothesis was ${formatOrdinal(rank)}, and ${limit} are kept; ${formatNumber(behind)} behind the last of them.`,
    unconsidered: () => say`Never considered: ${word} was ${formatOrdinal(rank)} at step ${step}; the hypothesis was ${formatNumber(behind)} behind the last of ${limit} candidates.`,
    too_long: () => say`Too long: a translation of this sentence may have ${limit} pieces; at step ${step}, it must end.`,
    forbidden: () => say`The settings of the search exclude ${word} at step ${step}: a minimum length, or no repeated n-grams.`,
    drawn: () => say`The search draws pieces at random; at step ${step}, it drew another than ${word}.`,
  }[kind]();
}

// A piece by its word, if it is the only one of the word.
function namePiece({ pieces, spans, words }, place) {
  const at = spans.findIndex(([start, end]) => start <= place && place < end);
  if (at < 0) {
    return "";
  }
  const [start, end] = spans[at];
  const piece = quote(pieces[place].replaceAll("▁", "") || pieces[place]);
  return end - start === 1 ? quote(words[at]) : say`the piece ${piece} of ${quote(words[at])}`;
}

// The rank of a word: that of the piece for which the search left it, or of its least likely one.
function rankOfWord({ ranks, verdict: { kind, step } }, start, end) {
  const isLeft = isLost(kind) && start < step && step <= end;
  return isLeft ? ranks[step - 1] : Math.max(...ranks.slice(start, end));
}

function isLost(kind) {
  return ["dropped", "unconsidered"].includes(kind);
}

// A translation that the search missed although it scores better is the fault of the search.
function describeScores({ score, bestScore, verdict: { kind } }) {
  if (["best", "n_best", "beaten"].includes(kind)) {
    return "";
  }
  const verdict = score > bestScore ? say`the search missed a better translation` : say`the model prefers its own translation`;
  return say`As a whole it scores ${formatNumber(score, 3)}, the best translation ${formatNumber(bestScore, 3)}: ${verdict}.`;
}

// The words of the expected translation: probability and rank of each, a frame around the
// first that is not the model's choice, ✂ where the hypothesis was dropped.
function makeExpectedWords(explanation, byWords) {
  const { target, logProbs, turn, instead, verdict } = explanation;
  const spans = byWords ? target.spans : target.pieces.map((_, i) => [i, i + 1]);
  return spans.map(([start, end], i) => {
    const probability = Math.exp(logProbs.slice(start, end).reduce((a, b) => a + b, 0));
    const isTurn = turn !== null && start <= turn && turn < end;
    const isCut = isLost(verdict.kind) && start < verdict.step && verdict.step <= end;
    return makeElement("li", { class: isTurn ? "turn" : null },
      makeElement("span", { class: `text shade${shadeOf(probability)}`, lang: languageOf("target") }, (byWords ? target.words : target.pieces)[i]),
      makeElement("span", { class: "number" }, ` ${formatProbability(probability)}, ${formatOrdinal(rankOfWord(explanation, start, end))}${isCut ? " ✂" : ""}`),
      isTurn ? makeElement("span", { class: "number" }, sayWith`likelier: ${makeElement("span", { lang: languageOf("target") }, instead.word)} ${formatProbability(Math.exp(instead.logProb))}`) : "");
  });
}

// Test sentences

const TESTS_PER_PAGE = 50;
// The rows of each model, by its name; `page` is the page of the list.
const tests = { rows: new Map(), page: 0, request: null };

function testRows(model) {
  const { name } = page.models[model];
  if (!tests.rows.has(name)) {
    tests.rows.set(name, []);
  }
  return tests.rows.get(name);
}

// The list, the worst translations first; with two models, the largest differences.
function sortTests(rows, otherRows) {
  const compared = rows.map((row, i) => ({ ...row, other: otherRows?.[i] }));
  const weight = otherRows ? ({ chrf, other }) => (other ? -Math.abs(chrf - other.chrf) : 0) : ({ chrf }) => chrf;
  return compared.sort((a, b) => weight(a) - weight(b));
}

function showTests() {
  const { total = 0, name } = page.models[view.model].testSentences ?? {};
  const rows = testRows(view.model);
  const otherRows = view.other < 0 ? null : testRows(view.other);
  const done = Math.min(rows.length, otherRows ? otherRows.length : rows.length);
  const isRunning = tests.request !== null;
  const first = tests.page * TESTS_PER_PAGE;
  byId("no-tests").hidden = total > 0;
  byId("tests-tools").hidden = total === 0;
  byId("translate-tests").hidden = done === total;
  byId("translate-tests").textContent = isRunning ? say`Stop` : say`Translate the ${formatNumber(total, 0)} sentences of ${translate(name)}`;
  byId("tests-progress").hidden = !isRunning;
  byId("tests-progress").max = otherRows ? 2 * total : total;
  byId("tests-progress").value = rows.length + (otherRows?.length ?? 0);
  byId("tests-count").textContent = done === 0 ? "" : `${say`${formatNumber(done, 0)} of ${formatNumber(total, 0)} translated;`} ${otherRows ? say`the largest differences of chrF first` : say`the lowest chrF first`}`;
  byId("tests-pages").hidden = done <= TESTS_PER_PAGE;
  byId("tests-page").textContent = say`${first + 1} to ${Math.min(first + TESTS_PER_PAGE, done)}`;
  byId("previous-tests").ariaDisabled = String(tests.page === 0);
  byId("next-tests").ariaDisabled = String(first + TESTS_PER_PAGE >= done);
  const sorted = byId("tests").open ? sortTests(rows.slice(0, done), otherRows) : [];
  byId("test-rows").start = first + 1;
  replaceChildren(byId("test-rows"), sorted.slice(first, first + TESTS_PER_PAGE).map(makeTestRow));
}

function makeTestRow({ source, reference, translation, chrf, other }) {
  const open = () => {
    byId("text").value = source;
    handleInput();
    expect(reference);
    byId("text").scrollIntoView({ block: "center" });
  };
  return makeElement("li", {},
    makeElement("button", { type: "button", lang: languageOf("source", view.model), dir: "auto", onclick: open }, source),
    makeElement("span", { class: "number" }, ` chrF ${formatNumber(chrf, 1)}${other ? say`, other model ${formatNumber(other.chrf, 1)}` : ""}`),
    makeElement("div", { class: "note", lang: languageOf("target", view.model), dir: "auto" }, translation),
    other ? makeElement("div", { class: "note", lang: languageOf("target", view.other), dir: "auto" }, `${page.models[view.other].name}: ${other.translation}`) : "");
}

// Translate the test sentences that are missing, a few at a time, until it is stopped.
async function translateTests() {
  tests.request = new AbortController();
  const { signal } = tests.request;
  showTests();
  try {
    for (const model of [view.model, view.other].filter((index) => index >= 0)) {
      const rows = testRows(model);
      const { total } = page.models[model].testSentences;
      while (rows.length < total && !signal.aborted) {
        const answer = await page.source.testSentences({ model, start: rows.length }, signal);
        rows.push(...answer.sentences);
        showTests();
      }
    }
  } catch (error) {
    byId("tests-count").textContent = error.name === "AbortError" ? "" : describeError(error);
  }
  tests.request = null;
  showTests();
}

function turnTestPage(by) {
  tests.page = Math.max(tests.page + by, 0);
  showTests();
}

// Where it learned this

const learned = { key: "", pairs: null };

async function showLearned() {
  if (!byId("learned").open) {
    return;
  }
  const { text, model } = page.inspection;
  const key = JSON.stringify([text, page.models[model].name]);
  if (key === learned.key) {
    return;
  }
  learned.key = key;
  replaceChildren(byId("learned-pairs"), say`Searching …`);
  try {
    const pairs = await page.source.trainingPairs({ text, model });
    if (key === learned.key) {
      replaceChildren(byId("learned-pairs"), pairs ? makeLearned(pairs) : say`The data folder that the model learned from is not here.`);
    }
  } catch (error) {
    learned.key = "";
    replaceChildren(byId("learned-pairs"), describeError(error));
  }
}

const RARE_WORDS = 8; // whose counts are shown

function makeLearned({ total, words, phrases, pairs }) {
  const rareWords = words.slice(0, RARE_WORDS);
  const rare = new Set(rareWords.map(({ word }) => word));
  return [
    makeElement("p", {}, say`Of ${formatNumber(total, 0)} training pairs, the rarest words of the sentence are in:`, " ", makeCounts(rareWords.map(({ word, count }) => [word, count])), "."),
    phrases.length ? makeElement("p", {}, say`Its longest phrases that are in training pairs:`, " ", makeCounts(phrases.map(({ phrase, count }) => [phrase, count])), ".") : "",
    pairs.length ? makeElement("ol", {}, pairs.map(({ source, target, shared }) => makeElement("li", {},
      makeElement("div", { lang: languageOf("source"), dir: "auto" }, markWords(source, shared.filter((word) => rare.has(word)))),
      makeElement("div", { class: "note", lang: languageOf("target"), dir: "auto" }, target)))) : "",
  ];
}

// Words or phrases, each with its number of training pairs: “Fahrrad 812×, Hund 90×”.
function makeCounts(rows) {
  return rows.flatMap(([text, count], i) => [i ? ", " : "", makeElement("span", { lang: languageOf("source") }, quote(text)), ` ${formatNumber(count, 0)}×`]);
}

// A text with some of its words marked.
function markWords(text, words) {
  return text.split(/([\p{L}\p{M}\p{N}]+(?:[^\s\p{L}\p{N}][\p{L}\p{M}\p{N}]+)*)/u).map((part) => (words.includes(part) ? makeElement("mark", {}, part) : part));
}

function addWhyNotListeners() {
  byId("expected").addEventListener("input", () => {
    clearTimeout(whyNot.timer);
    stopLooking();
    Object.assign(view, { expected: byId("expected").value });
    whyNot.ids = null;
    whyNot.timer = setTimeout(() => { writeLink(); if (page.inspection) { explainExpected(); } }, EXPLAIN_PAUSE);
  });
  byId("tests").addEventListener("toggle", showTests);
  byId("translate-tests").addEventListener("click", () => (tests.request ? tests.request.abort() : translateTests()));
  byId("previous-tests").addEventListener("click", () => tests.page > 0 && turnTestPage(-1));
  byId("next-tests").addEventListener("click", () => byId("next-tests").ariaDisabled !== "true" && turnTestPage(1));
  byId("learned").addEventListener("toggle", showLearned);
}
