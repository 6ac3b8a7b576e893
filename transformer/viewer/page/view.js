// The current view, and the link that encodes it.

const page = { source: null, models: [], translation: null, inspection: null, other: null, highlight: null, lit: null, matrix: null, layout: null, request: null, timer: 0, linkTimer: 0, inputs: 0, isPrinted: false, isSettled: false, isLinked: false, linkedChoices: [] };
const view = { text: "", sentence: 0, model: 0, other: -1, byWords: true, kind: "cross", layer: 0, head: "mean", prefix: [], target: null, pieces: "", padding: 0, showCut: true, theme: "auto", tab: "why-not", expected: "", step: null, off: [] };
// The best translation. `pieces` are those that a choice keeps: a link can then be checked.
const NO_CHOICE = { prefix: [], target: null, pieces: "" };

// The language of a side of a sentence, as an attribute; null if the model names none.
function languageOf(side, model = page.inspection.model) {
  const [source, target] = page.models[model].languages;
  const language = side === "source" ? source : target;
  return ["source", "target"].includes(language) ? null : language;
}

// The view as a link, and back. The fields of a link are validated: anyone may write one.
function viewToHash() {
  const { text, sentence, model, other, byWords, kind, layer, head, prefix, target, pieces, padding, showCut, theme, tab, expected, step, off } = view;
  const { row, column } = page.highlight ?? {};
  const choices = [...listOtherChoices(), ...page.linkedChoices];
  const fields = {
    a: choices.length ? JSON.stringify(choices) : "", t: text, n: sentence, m: page.models[model].name, o: page.models[other]?.name ?? "", w: byWords ? 1 : 0, k: kind, l: layer, h: head,
    p: prefix.join("."), g: target ? target.join(".") : "-", c: pieces, r: row ?? "", q: column ?? "", d: padding, x: showCut ? 1 : 0, y: theme, b: tab, e: expected, s: step ?? "", f: off.join("_"), i: reader.language, z: lesson.number === null ? "" : lesson.number + 1,
  };
  return `#${new URLSearchParams(fields)}`;
}

// Write the view into the address; with `isNew`, the browser's Back button returns to the
// view before. Until the models are known, the address still holds the view to start with.
function writeLink(isNew = false) {
  clearTimeout(page.linkTimer);
  if (page.models.length) {
    const link = viewToHash();
    const isAnother = isNew && link !== location.hash;
    const before = findChoice(currentSentence()?.source);
    const isChoice = hasChoice() && (before?.prefix !== view.prefix || before.target !== view.target);
    const state = isAnother ? { isChoice } : history.state;
    history[isAnother ? "pushState" : "replaceState"](state, "", link);
  }
}

// Browsers limit how often an address may change, so wait until the pointer rests.
function writeLinkSoon() {
  clearTimeout(page.linkTimer);
  page.linkTimer = setTimeout(writeLink, 300);
}

function hashToView(hash) {
  const fields = new URLSearchParams(hash.slice(1));
  if (Object.hasOwn(PAGE_LANGUAGES, fields.get("i"))) {
    reader.language = fields.get("i");
  }
  const refused = []; // what the link has, and what was expected
  // A field, if it has a valid value: `read` returns undefined for others.
  const field = (name, read, expected, fallback) => {
    const text = fields.get(name) ?? "";
    const value = read(text);
    if (text !== "" && value === undefined) {
      refused.push(say`${name} is ${quote(clipText(text, 20))}, expected ${expected}`);
    }
    return value ?? fallback;
  };
  const oneOf = (names) => (text) => (names.includes(text) ? text : undefined);
  const choice = (name, names, fallback) => field(name, oneOf(names), names.join(", "), fallback);
  const whole = (min, max) => (text) => (/^-?\d+$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : undefined);
  const integer = (name, min, max, fallback) => field(name, whole(min, max), say`${min} to ${max}`, fallback);
  const toIds = (text) => (/^\d{1,7}(\.\d{1,7})*$/.test(text) ? text.split(".").map(Number) : undefined);
  const ids = (name) => field(name, toIds, say`numbers of pieces`, []);
  // A model is named; earlier links have its number.
  const model = (name, fallback) => {
    const index = page.models.findIndex((candidate) => candidate.name === fields.get(name));
    return index < 0 ? whole(0, page.models.length - 1)(fields.get(name) ?? "") ?? fallback : index;
  };
  view.text = fields.get("t") || "";
  view.sentence = integer("n", 0, MAX_CHARACTERS, 0);
  view.model = model("m", 0);
  view.other = page.models.length > 1 ? model("o", -1) : -1;
  view.byWords = fields.get("w") !== "0";
  view.kind = choice("k", Object.keys(KINDS), "cross");
  view.layer = integer("l", 0, page.models[view.model].layers - 1, page.models[view.model].layers - 1);
  const { heads } = page.models[view.model];
  view.head = field("h", (text) => oneOf(["mean", "max"])(text) ?? whole(0, heads - 1)(text), `mean, max, ${say`${0} to ${heads - 1}`}`, "mean");
  view.prefix = ids("p");
  view.target = fields.has("g") && fields.get("g") !== "-" ? ids("g") : null;
  view.pieces = fields.get("c") || "";
  page.linkedChoices = field("a", readChoices, say`choices of other sentences`, []);
  view.step = integer("s", 1 - page.models[view.model].layers, MAX_CHARACTERS, null);
  view.padding = integer("d", 0, 16, 0);
  view.showCut = fields.get("x") !== "0";
  view.theme = choice("y", ["light", "dark", "auto"], view.theme);
  view.tab = choice("b", Object.keys(WHY_TABS), "why-not");
  view.off = (fields.get("f") || "").split("_").filter((name) => /^(encoder|decoder|cross)(\.\d{1,3}){2}$/.test(name));
  view.expected = (fields.get("e") || "").slice(0, MAX_CHARACTERS);
  const number = integer("z", 1, countLessons(), null);
  lesson.number = number && number - 1;
  page.lit = { row: integer("r", 0, MAX_CHARACTERS, undefined), column: integer("q", 0, MAX_CHARACTERS, undefined) };
  showMisfit(describeMisfit(fields, refused));
}

// The choices of other sentences: see `listOtherChoices`. Undefined if they are not valid.
function readChoices(text) {
  const isIds = (value) => Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0);
  const isChoice = ([sentence, prefix, target, pieces]) => isIds([sentence]) && isIds(prefix) && (target === null || isIds(target)) && typeof pieces === "string";
  try {
    const choices = JSON.parse(text);
    return choices.every(isChoice) ? choices : undefined;
  } catch {
    return undefined;
  }
}

// What of a link does not fit, and what to do; "" if all does.
function describeMisfit(fields, refused) {
  const isMissing = (name) => name && !/^-?\d+$/.test(name) && page.models.every((candidate) => candidate.name !== name);
  const [model, other] = [fields.get("m"), fields.get("o")];
  if (isMissing(model)) {
    return say`The link is for the model ${quote(model)}, which is not here. This is ${quote(page.models[view.model].name)}, which may translate differently: to see what the link shows, open that model.`;
  }
  if (isMissing(other)) {
    return say`The link compares with the model ${quote(other)}, which is not here, so nothing is compared. To compare, open both models.`;
  }
  return refused.length ? say`The link is damaged, or was written by another version: ${refused.join("; ")}. The page shows its own choice instead; choose again, or copy the whole link once more.` : "";
}

// A choice in a link keeps pieces that are others in this model, or do not exist there: `found`
// is "" then.
function describeOtherPieces(kept, found) {
  const show = (pieces) => quote(pieces.replaceAll("▁", " ").trim());
  const [text, other] = [kept ? show(kept) : say`a choice`, show(found)];
  const difference = found ? say`The link keeps ${text}, but in this model the same pieces are ${other}.` : say`The link keeps ${text}, in pieces that this model does not have.`;
  return `${difference} ${say`It was copied from another model, or before a new training. This is the model's own translation: choose again, and copy a new link.`}`;
}

// Say what of a link does not fit.
function showMisfit(text) {
  byId("misfit").hidden = !text;
  byId("misfit").textContent = text;
}
