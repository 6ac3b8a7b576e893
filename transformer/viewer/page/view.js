// The current view, and the link that encodes it.

const page = { source: null, models: [], translation: null, inspection: null, other: null, highlight: null, lit: null, matrix: null, layout: null, request: null, timer: 0, linkTimer: 0, inputs: 0, isPrinted: false, isSettled: false };
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
  const fields = {
    t: text, n: sentence, m: page.models[model].name, o: page.models[other]?.name ?? "", w: byWords ? 1 : 0, k: kind, l: layer, h: head,
    p: prefix.join("."), g: target ? target.join(".") : "-", c: pieces, r: row ?? "", q: column ?? "", d: padding, x: showCut ? 1 : 0, y: theme, b: tab, e: expected, s: step ?? "", f: off.join("_"), i: reader.isChosen ? reader.language : "",
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
    const state = isAnother ? { isChoice: view.prefix.length > 0 || view.target !== null } : history.state;
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
  const integer = (name, min, max, fallback) => {
    const value = fields.get(name) ? Number(fields.get(name)) : NaN;
    return Number.isInteger(value) && value >= min && value <= max ? value : fallback;
  };
  const ids = (name) => (fields.get(name) || "").split(".").filter((id) => /^\d{1,7}$/.test(id)).map(Number);
  // A model is named; earlier links have its number.
  const model = (name, fallback) => {
    const index = page.models.findIndex((candidate) => candidate.name === fields.get(name));
    return index < 0 ? integer(name, 0, page.models.length - 1, fallback) : index;
  };
  view.text = fields.get("t") || "";
  view.sentence = integer("n", 0, MAX_CHARACTERS, 0);
  view.model = model("m", 0);
  view.other = page.models.length > 1 ? model("o", -1) : -1;
  view.byWords = fields.get("w") !== "0";
  view.kind = Object.hasOwn(KINDS, fields.get("k")) ? fields.get("k") : "cross";
  view.layer = integer("l", 0, page.models[view.model].layers - 1, page.models[view.model].layers - 1);
  view.head = fields.get("h") === "max" ? "max" : integer("h", 0, page.models[view.model].heads - 1, "mean");
  view.prefix = ids("p");
  view.target = fields.has("g") && fields.get("g") !== "-" ? ids("g") : null;
  view.pieces = fields.get("c") || "";
  view.step = integer("s", 1 - page.models[view.model].layers, MAX_CHARACTERS, null);
  view.padding = integer("d", 0, 16, 0);
  view.showCut = fields.get("x") !== "0";
  view.theme = ["light", "dark", "auto"].includes(fields.get("y")) ? fields.get("y") : view.theme;
  view.tab = Object.hasOwn(WHY_TABS, fields.get("b")) ? fields.get("b") : "why-not";
  view.off = (fields.get("f") || "").split("_").filter((name) => /^(encoder|decoder|cross)(\.\d{1,3}){2}$/.test(name));
  view.expected = (fields.get("e") || "").slice(0, MAX_CHARACTERS);
  if (Object.hasOwn(PAGE_LANGUAGES, fields.get("i"))) {
    Object.assign(reader, { language: fields.get("i"), isChosen: true });
  }
  page.lit = { row: integer("r", 0, MAX_CHARACTERS, undefined), column: integer("q", 0, MAX_CHARACTERS, undefined) };
  const missing = ["m", "o"].map((name) => fields.get(name)).find((name) => name && !/^-?\d+$/.test(name) && page.models.every((candidate) => candidate.name !== name));
  showMisfit(missing ? say`The link is for the model “${missing}”, which is not here.` : "");
}

// Say what of a link does not fit.
function showMisfit(text) {
  byId("misfit").hidden = !text;
  byId("misfit").textContent = text;
}
