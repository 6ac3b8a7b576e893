// Request what the page shows, and handle choices; main.js draws the answer.

const DEBOUNCE = 250; // milliseconds after the last key
const RETRY = 1500; // milliseconds between two attempts to reach the server
const SETTLED = 2000; // milliseconds after which a sentence has its place in the history, and its words are left out

function showStatus(text, isBad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", isBad);
}

function makeRequest(model) {
  const { prefix, target, padding } = view;
  return { model, text: currentSentence()?.source, prefix, target, padding };
}

// The translation of the text, or of its beginning; undefined until there is one.
function currentTranslation() {
  const { translation } = page;
  const isCurrent = translation?.input === limitText(view.text).trim() && translation.model === view.model;
  return isCurrent ? translation : undefined;
}

// The choices of the sentences, of which the view has only one: they remain while another
// sentence is inspected, or the text is edited.
const choices = new Map(); // model and sentence → { prefix, target, pieces, text, words }

function keyOfSentence(model, source) {
  return JSON.stringify([page.models[model].name, source]);
}

// What was chosen for a sentence; undefined: nothing.
function findChoice(source, model = view.model) {
  return choices.get(keyOfSentence(model, source));
}

function hasChoice({ prefix, target } = view) {
  return prefix.length > 0 || target !== null;
}

// Remember the choice that an inspection shows, or that there is none.
function rememberChoice(inspection, { prefix, target, pieces } = view) {
  const key = keyOfSentence(inspection.model, inspection.text);
  if (hasChoice({ prefix, target })) {
    const probabilities = inspection.probabilities(true);
    const words = inspection.data.target.words.slice(0, -1).map((word, i) => ({ word, probability: probabilities[i] }));
    choices.set(key, { prefix, target, pieces, text: textOf(inspection), words });
  } else {
    choices.delete(key);
  }
}

// The same as a part of the view.
function choiceOf(source) {
  const { prefix, target, pieces } = findChoice(source) ?? NO_CHOICE;
  return { prefix, target, pieces };
}

// The choices of the other sentences for a link, each [sentence, prefix, target, pieces].
function listOtherChoices() {
  const sentences = currentTranslation()?.sentences ?? [];
  return sentences.flatMap(({ source }, i) => {
    const choice = findChoice(source);
    return choice && i !== view.sentence ? [[i, choice.prefix, choice.target, choice.pieces]] : [];
  });
}

// Make the choices of a link for other sentences than the one that the page inspects.
async function restoreChoices(signal) {
  const { sentences } = page.translation;
  while (page.linkedChoices.length) {
    const [[i, prefix, target, pieces]] = page.linkedChoices;
    const text = i === view.sentence ? undefined : sentences[i]?.source;
    const known = findChoice(text);
    if (text !== undefined && (known?.pieces !== pieces || String(known.target) !== String(target))) {
      const inspection = await page.source.inspect({ model: view.model, text, prefix, target, padding: 0 }, signal).catch((error) => {
        if (error instanceof Unreachable) {
          throw error; // it is tried again
        }
        return null;
      });
      signal.throwIfAborted();
      const found = inspection && piecesOfChoice(inspection, { prefix, target });
      if (found === pieces) {
        rememberChoice(inspection, { prefix, target, pieces });
      } else {
        showMisfit(describeOtherPieces(pieces, found ?? ""));
      }
    }
    page.linkedChoices.shift();
  }
  showTranslation();
  writeLink();
}

// The sentence that the page inspects, { source, text }; undefined until it is translated.
function currentSentence() {
  return currentTranslation()?.sentences[view.sentence];
}

// Until the answer comes, the page shows results of another text or model.
function isStale() {
  const { inspection, other } = page;
  return inspection !== null && (inspection.text !== makeRequest(view.model).text || inspection.model !== view.model || (other ? other.model : -1) !== view.other);
}

function markStale() {
  document.body.classList.toggle("stale", isStale());
  byId("stale").hidden = !isStale();
  byId("stale").textContent = isStale() ? say`The results below are for ${quote(page.inspection.text)}, by ${page.models[page.inspection.model].name}.` : "";
}

// Request the translation of the text, and the inspection of one of its sentences; abort
// the previous request.
async function refresh() {
  clearTimeout(page.timer);
  page.request?.abort();
  const request = new AbortController();
  page.request = request;
  writeLink(page.isSettled);
  page.isSettled = false;
  markStale();
  if (!view.text.trim()) {
    page.inspection = null;
    showStatus("");
    show();
    return;
  }
  showStatus(say`Translating …`);
  try {
    const [isAnotherServer] = await Promise.all([fetchModels(request.signal), translateText(request.signal)]);
    if (isAnotherServer) {
      page.translation = null;
      await translateText(request.signal);
    }
    const inspection = await page.source.inspect(makeRequest(view.model), request.signal);
    const other = view.other < 0 ? null : await page.source.inspect({ ...makeRequest(view.other), text: inspection.text, prefix: [], target: null }, request.signal);
    if (page.request === request) {
      await showInspections(inspection, other, request.signal);
      if (page.linkedChoices.length) {
        await restoreChoices(request.signal);
      }
    }
  } catch (error) {
    if (page.request === request) {
      await handleError(error);
    }
  }
}

// Show the example that the page opens with. It was inspected when the page was made, so it
// is there at once.
async function showExample({ text, inspection }) {
  const [best] = inspection.nBest;
  page.translation = { input: text, model: view.model, sentences: [{ source: text, text: best.text }], gaps: [""], isComplete: true };
  page.request = new AbortController();
  await showInspections(new Inspection(inspection, makeRequest(view.model)), null, page.request.signal);
}

async function showInspections(inspection, other, signal) {
  const pieces = piecesOfChoice(inspection);
  if (view.pieces && view.pieces !== pieces) {
    showMisfit(describeOtherPieces(view.pieces, pieces));
    Object.assign(view, NO_CHOICE);
    await refresh();
    return;
  }
  page.isLinked = false;
  view.pieces = pieces;
  rememberChoice(inspection);
  Object.assign(page, { inspection, other, highlight: null });
  showStatus("");
  show();
  if (page.source.started) { // the worker takes its memory from that of the page
    collectGarbage();
  }
  lightWords();
  writeLink();
  page.timer = setTimeout(() => { page.isSettled = true; }, SETTLED);
  byId("heard").textContent = say`Translation: ${textOf(inspection)}`;
  showWithout(inspection, signal).catch((error) => page.inspection === inspection && handleError(error));
}

function becomeVisible(element) {
  return new Promise((resolve) => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) {
        observer.disconnect();
        resolve();
      }
    }, { rootMargin: "200px" });
    observer.observe(element);
  });
}

// The pieces that a choice of the user keeps.
function piecesOfChoice({ data }, { prefix, target } = view) {
  const count = target ? data.target.pieces.length - 1 : prefix.length;
  return data.target.pieces.slice(0, count).join("");
}

// Highlight the row and column of a link, if they exist.
function lightWords() {
  const { row, column } = page.lit ?? {};
  page.lit = null;
  if ((row ?? column) !== undefined && !(row >= page.matrix.rows) && !(column >= page.matrix.columns)) {
    setHighlight({ ...(row !== undefined && { row }), ...(column !== undefined && { column }) });
  }
}

// The effect of leaving out words takes longer than the rest, so it is computed when its
// section comes into view, or when nothing was typed for a while; a file has it.
async function showWithout(inspection, signal) {
  if (!inspection.data.without) {
    await Promise.race([becomeVisible(byId("without")), pauseInTyping(signal)]);
    signal.throwIfAborted();
    const report = (soFar) => page.inspection === inspection && showBars(soFar);
    inspection.data.without = await page.source.leaveOutWords(inspection, signal, report);
    showBars();
    showRemarks(inspection, page.translation.sentences.length);
  }
}

// Wait until nothing has been typed for a while, in any box.
async function pauseInTyping(signal) {
  let before;
  do {
    before = page.inputs;
    await new Promise((resolve) => { setTimeout(resolve, SETTLED); });
  } while (page.inputs !== before && !signal.aborted);
}

// Translate the text, unless that has been done. Show each part of the translation at once:
// the rest, and an inspection, take longer.
async function translateText(signal) {
  if (!currentTranslation()?.isComplete) {
    const { model } = view;
    const input = limitText(view.text).trim();
    const translation = { input, model, sentences: [], gaps: [], isComplete: false };
    for await (const { sentences, gaps, done } of page.source.translate({ model, text: input, language: languageOf("source", model) }, signal)) {
      translation.sentences.push(...sentences);
      translation.gaps.push(...gaps);
      if (done < 1 && translation.sentences.some(({ text }) => text !== null)) {
        page.translation = translation;
        showTranslation();
        showStatus(say`Translating … ${Math.round(100 * done)} %`);
      }
    }
    checkSentences(translation.sentences);
    translation.isComplete = true;
    page.translation = translation;
    view.sentence = findSentence(Math.min(view.sentence, translation.sentences.length - 1), 1) ?? findSentence(0, 1);
    if (!page.isLinked && !hasChoice()) {
      Object.assign(view, choiceOf(translation.sentences[view.sentence].source));
    }
  }
  showTranslation();
}

// If a choice fails, return to the best translation; if the sentence is rejected, show nothing.
async function handleError(error) {
  if (error.name === "AbortError") {
    return;
  }
  if (error instanceof Unreachable || error.code === "no_model") { // its models are others now
    page.timer = setTimeout(recover, RETRY);
  } else if (hasChoice()) {
    const isOfLink = page.isLinked && error.code === undefined; // such as ids beyond the vocabulary
    if (isOfLink) {
      showMisfit(describeOtherPieces(view.pieces, ""));
    }
    Object.assign(view, NO_CHOICE);
    await refresh();
    if (isOfLink) {
      return;
    }
  } else {
    page.inspection = null;
    show();
  }
  showStatus(describeError(error), true);
}

async function recover() {
  try {
    await fetchModels();
  } catch {
    page.timer = setTimeout(recover, RETRY);
    return;
  }
  await refresh();
}

// Fetch the models of the source, which may have been restarted with other models. A number
// distinguishes models of the same name. Return whether the models are others.
async function fetchModels(signal) {
  const before = page.models.map(({ name }) => name).join();
  const models = await page.source.models(signal);
  const isAmbiguous = (name) => models.filter((model) => model.name === name).length > 1;
  page.models = models.map((model, i) => (isAmbiguous(model.name) ? { ...model, name: `${model.name} (${i + 1})` } : model));
  const isDifferent = page.models.map(({ name }) => name).join() !== before;
  if (isDifferent) {
    Object.assign(page, { inspection: null, other: null });
    view.model = Math.min(view.model, page.models.length - 1);
    view.other = page.models.length > 1 && view.other < page.models.length ? view.other : -1;
    showSettings();
    show();
  }
  return isDifferent;
}

// A model that does not split texts may translate only the first of several sentences.
function showRemark() {
  byId("several").hidden = page.models[view.model].split || !/(\n|[.!?…]["”’»)]*\s)\s*\S/.test(view.text.trim());
  const rest = view.text.slice(limitText(view.text).length).trim();
  byId("too-long").hidden = rest === "";
  byId("too-long").textContent = say`Not translated: the last ${formatNumber([...rest].length, 0)} characters, from ${quote(clipText(rest, 30))} on. A text has at most ${formatNumber(MAX_CHARACTERS, 0)}.`;
}

function handleInput() {
  view.text = byId("text").value;
  byId("heard").textContent = "";
  Object.assign(view, { sentence: 0, expected: "", step: null });
  whyNot.ids = null;
  showCounter();
  showExamples();
  showRemark();
  showMisfit("");
  Object.assign(page, { isLinked: false, linkedChoices: [] });
  Object.assign(view, NO_CHOICE);
  markStale();
  showTranslation();
  clearTimeout(page.timer);
  page.request?.abort();
  page.timer = setTimeout(refresh, DEBOUNCE);
}

// The attributes of a button that chooses a translation; it is disabled if the file lacks it.
function choiceAttributes(choice) {
  const isThere = page.source.has({ ...makeRequest(view.model), ...choice });
  return { onclick: isThere ? () => choose(choice) : () => showStatus(sayNotInFile()), "aria-disabled": isThere ? null : "true" };
}

// Stale results belong to another text: they cannot be chosen.
function choose(choice) {
  if (!isStale()) {
    page.isLinked = false;
    Object.assign(view, NO_CHOICE, choice);
    showMisfit("");
    page.isSettled = true;
    refresh();
  }
}

// The next sentence from an index on, in steps of 1 or −1, that has a translation.
function findSentence(index, by) {
  const { sentences } = page.translation;
  for (let i = index; i >= 0 && i < sentences.length; i += by) {
    if (sentences[i].text !== null) {
      return i;
    }
  }
  return undefined;
}

function chooseSentence(sentence) {
  if (sentence !== undefined && !isStale() && sentence !== view.sentence) {
    whyNot.ids = null; // what was expected is of another sentence
    choose({ sentence, step: null, expected: "", ...choiceOf(page.translation.sentences[sentence].source) });
  }
}

// Return to the best translation. Its button disappears, so the focus moves to the translation.
function resetChoice() {
  if (document.activeElement === byId("reset-choice")) {
    itemsOf(byId("translation")).find((item) => item.tabIndex === 0)?.focus();
  }
  choose(NO_CHOICE);
}
