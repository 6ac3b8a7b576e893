// The two panes: the text, and its translation, whose sentences and words can be chosen.

const UNSURE = 0.5; // a word with a smaller probability is named below the translation
const MAX_LISTED = 3; // words that a remark names; of the others, it has the number
// A translation with less than this share of the pieces of its source may lack a part of it;
// sentences of few pieces differ more.
const SHORT = 0.5;
const LONG_SOURCE = 8;

// The translation of the whole text, a span for each sentence. The words of the inspected
// sentence are buttons; `inspection` is null until there is one.
function makeTranslation({ sentences, gaps }, current, inspection) {
  return sentences.map(applyChoice).flatMap(({ source, text, words, error }, i) => {
    if (text === null) {
      return [gaps[i], makeElement("span", { class: "failed", lang: languageOf("source", view.model), title: describeError(error) }, source)];
    }
    if (i === current) {
      return [gaps[i], makeElement("span", { class: sentences.length > 1 ? "chosen" : null }, inspection ? makeWordButtons(inspection) : text)];
    }
    const choose = () => getSelection().isCollapsed && chooseSentence(i);
    return [gaps[i], makeElement("span", { class: "other", role: "button", "data-sentence": i, onclick: choose }, makeRatedWords(text, words))];
  });
}

// A sentence with what was chosen for it.
function applyChoice(sentence) {
  const { text, words } = findChoice(sentence.source) ?? sentence;
  return { ...sentence, text, words };
}

// Only words that are named as unsure are shaded: the others are sure.
function shadeOfWord(probability) {
  return probability < UNSURE ? shadeOf(probability) : SHADE_LIMITS.length;
}

// The words of a translation as buttons.
function makeWordButtons(inspection) {
  const probabilities = inspection.probabilities(true);
  return wrapWords(textOf(inspection), inspection.data.target.words.slice(0, -1), (word, i) => makeElement("span", {
    class: `word shade${shadeOfWord(probabilities[i])}`, role: "button", "data-word": i, "aria-expanded": "false",
    title: say`Probability ${formatProbability(probabilities[i])}. Click to see other words`,
  }, word));
}

// The words of another sentence, as shaded as those of the inspected one; `ratedWords` is
// null if their probabilities are not known.
function makeRatedWords(text, ratedWords) {
  return wrapWords(text, (ratedWords ?? []).map(({ word }) => word), (word, i) => makeElement("span", { class: `shade${shadeOfWord(ratedWords[i].probability)}` }, word));
}

// A text with an element for each word, if it has exactly these words.
function wrapWords(text, words, makeWord) {
  const gaps = findGaps(text, words);
  const joined = words.map((word, i) => gaps[i] + word).join("");
  return text.startsWith(joined) ? [...words.flatMap((word, i) => [gaps[i], makeWord(word, i)]), text.slice(joined.length)] : text;
}

// The text of the translation that an inspection shows.
function textOf(inspection) {
  return findDisplayed(inspection)?.text ?? inspection.data.target.words.slice(0, -1).join(" ");
}

// The one of the n best that an inspection shows; undefined if it shows none of them.
function findDisplayed({ data }) {
  const displayed = data.target.ids.slice(0, -1).join();
  return data.nBest.find(({ ids }) => ids.join() === displayed);
}

function showTranslation() {
  const translation = currentTranslation();
  const isCurrent = translation !== undefined;
  const inspection = page.inspection && !isStale() ? page.inspection : null;
  closeChoices();
  const sentences = translation?.sentences ?? [];
  byId("translation").lang = languageOf("target", view.model) ?? "";
  byId("translation").classList.toggle("outdated", !isCurrent);
  if (isCurrent || !page.inspection) {
    replaceChildren(byId("translation"), sentences.length ? makeTranslation(translation, view.sentence, inspection) : []);
  }
  showChosen(inspection);
  byId("copy").hidden = sentences.length === 0;
  for (const id of ["previous-sentence", "next-sentence"]) {
    byId(id).hidden = sentences.length < 2;
  }
  byId("previous-sentence").ariaDisabled = String(isCurrent && findSentence(view.sentence - 1, -1) === undefined);
  byId("next-sentence").ariaDisabled = String(isCurrent && findSentence(view.sentence + 1, 1) === undefined);
  showFailures(sentences);
  showRemarks(inspection, sentences.length);
}

// Sentences that are too long stay in the source language, and are named.
function showFailures(sentences) {
  const failures = sentences.filter(({ text }) => text === null);
  const [first] = failures;
  byId("failures").hidden = failures.length === 0;
  if (first) {
    const start = quote(clipText(first.source, 30));
    const reason = describeError(first.error);
    byId("failures").textContent = failures.length === 1
      ? say`Not translated: a sentence, from ${start} on. ${reason}`
      : say`Not translated: ${failures.length} sentences, from ${start} on. ${reason}`;
  }
}

// What of the translation is a choice of the user.
function showChosen(inspection) {
  const { prefix, target } = view;
  const isChoice = hasChoice();
  byId("prefix").hidden = !inspection || !isChoice;
  if (inspection && isChoice) {
    const kept = prefix.length === 1 ? say`The first piece is kept; the rest was decoded again.` : say`The first ${prefix.length} pieces are kept; the rest was decoded again.`;
    replaceChildren(byId("prefix"), target ? say`This is the hypothesis that you chose.` : kept, " ",
      makeElement("button", { type: "button", id: "reset-choice", onclick: resetChoice }, say`Back to the best translation`));
  }
}

// What a reader should know of the sentence: in the footer whether the model was sure, and
// below the panes which words were not.
function showRemarks(inspection, count) {
  const number = count > 1 ? say`Sentence ${view.sentence + 1} of ${count}` : count ? say`1 sentence` : "";
  const doubts = inspection ? describeDoubts(inspection) : [];
  const remarks = inspection && count > 1 ? [...doubts, ...describeOtherDoubts()] : doubts;
  byId("sentence-number").textContent = number + (inspection && doubts.length === 0 ? ` · ${say`sure`}` : "");
  byId("remarks").hidden = remarks.length === 0;
  replaceChildren(byId("remarks"), remarks.flatMap((remark) => [remark, " "]).flat());
}

function listWords(words) {
  return words.map((word) => quote(word.replace(/[.,;:!?]$/, ""))).join(", ");
}

// A few words; of many, the first ones and how many there are besides.
function nameWords(words) {
  const different = [...new Set(words.map((word) => word.replace(/[.,;:!?]$/, "")))];
  const named = listWords(different.slice(0, MAX_LISTED));
  return different.length > MAX_LISTED ? say`${named} and ${different.length - MAX_LISTED} more` : named;
}

// Whether a translation is much shorter than its source.
function isShort({ data: { realSource, target } }) {
  const [from, to] = [realSource, target.ids.length].map((count) => count - 1); // without the end
  return from >= LONG_SOURCE && to < SHORT * from;
}

// The remarks on a translation, each a text or a list of elements: words of which the model
// is not sure, words of the source that it cannot read, and words that it perhaps left out.
function describeDoubts(inspection) {
  const probabilities = inspection.probabilities(true);
  const unsure = inspection.data.target.words.slice(0, -1).filter((_, i) => probabilities[i] < UNSURE);
  const { without } = inspection.data;
  const leftOut = without ? findLeftOut(without, (i) => isRareWord(inspection, i)) : [];
  const unknown = inspection.labels("source", true).filter((_, i) => inspection.isUnknown(i, true));
  return [
    unsure.length > 0 && say`Not sure: ${nameWords(unsure)}.`,
    unknown.length > 0 && say`Not in the vocabulary, so the model cannot read it: ${listWords(unknown)}.`,
    leftOut.length > 0 && sayWith`Perhaps left out: ${makeLeftOut(inspection, leftOut)}.`.flat(),
    isShort(inspection) && say`The translation is less than half as long as the sentence: a part may be missing.`,
  ].filter(Boolean);
}

// The same of the other sentences, as far as their translation has told.
function describeOtherDoubts() {
  const others = page.translation.sentences.filter((_, i) => i !== view.sentence).map(applyChoice);
  const unsure = others.flatMap(({ words }) => (words ?? []).filter(({ probability }) => probability < UNSURE)).map(({ word }) => word);
  const unknown = [...new Set(others.flatMap((sentence) => sentence.unknown ?? []))];
  return [
    unsure.length > 0 && say`Not sure in the other sentences: ${nameWords(unsure)}.`,
    unknown.length > 0 && say`Not in the vocabulary in the other sentences: ${nameWords(unknown)}.`,
  ].filter(Boolean);
}

function showCounter() {
  const count = [...view.text].length;
  byId("counter").textContent = `${formatNumber(count, 0)} / ${formatNumber(MAX_CHARACTERS, 0)}`;
  byId("clear").hidden = count === 0;
}

async function copyTranslation() {
  await copyText(byId("translation").textContent);
  byId("copy").textContent = say`Copied`;
  setTimeout(() => { byId("copy").textContent = say`Copy`; }, 2000);
}

// Sentences to try: in place of an empty translation, or when asked for.
function showExamples(isOpen = view.text.trim() === "") {
  const { examples = [] } = page.models[view.model];
  const isUseful = examples.length > 0 && !page.source.isFrozen;
  byId("show-examples").hidden = !isUseful;
  byId("show-examples").ariaExpanded = String(isOpen);
  byId("examples").hidden = !isUseful || !isOpen;
  byId("translation").hidden = isUseful && isOpen;
  replaceChildren(byId("examples"), examples.map((text) => makeElement("button", { type: "button", dir: "auto", onclick: () => setText(text) }, text)));
}

// Put a text into the box, as if it were typed: it can be undone there.
function setText(text) {
  const box = byId("text");
  box.focus();
  box.select();
  if (!document.execCommand("insertText", false, text)) {
    box.value = text;
    handleInput();
  }
}

const FACTS = ["trained on {0} sentence pairs ({1})", "best at {0}", "{0} million parameters", "BLEU {0} on dev", "weights in {0}"];

// What the model is: languages, corpus, what it is good at, size, BLEU.
function showModel() {
  const { about = [], languages } = page.models[view.model];
  const name = (code) => new Intl.DisplayNames(reader.language, { type: "language", fallback: "code" }).of(code);
  const names = ["source", "target"].every((side) => languageOf(side, view.model)) ? [languages.map(name).join(" → ")] : [];
  byId("about").hidden = about.length === 0;
  byId("about").textContent = [...names, ...about.map((fact) => translateFilled(fact, FACTS))].join(" · ");
  showExamples();
}

// In a running text, the arrow keys also lead from line to line.
function moveInTranslation(event) {
  const items = itemsOf(byId("translation"));
  const place = items.indexOf(event.target) + { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (items[place]) {
    event.preventDefault();
    event.stopImmediatePropagation();
    setTabStop(items, items[place]);
    items[place].focus();
  }
}

// Typing replaces the example that the page opens with: it is selected when the box gets
// the focus.
function selectExample() {
  if (view.text === page.source.example?.text) {
    setTimeout(() => byId("text").select()); // after a click has set the cursor
  }
}

function addPaneListeners() {
  byId("text").addEventListener("focus", selectExample);
  byId("copy").addEventListener("click", copyTranslation);
  byId("clear").addEventListener("click", () => { setText(""); byId("text").focus(); });
  byId("show-examples").addEventListener("click", () => showExamples(byId("examples").hidden));
  byId("previous-sentence").addEventListener("click", () => chooseSentence(findSentence(view.sentence - 1, -1)));
  byId("next-sentence").addEventListener("click", () => chooseSentence(findSentence(view.sentence + 1, 1)));
  byId("translation").addEventListener("keydown", moveInTranslation);
  byId("translation").addEventListener("keydown", (event) => {
    if (event.target.role === "button" && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      event.target.click();
    }
  });
}
