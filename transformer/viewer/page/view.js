// The current view, and the link that encodes it.

const page = { source: null, models: [], inspection: null, other: null, highlight: null, matrix: null, layout: null, request: null, timer: 0, isPrinted: false };
const view = { text: "", model: 0, other: -1, byWords: true, kind: "cross", layer: 0, head: "mean", prefix: [], target: null, padding: 0, theme: "auto" };
const NO_CHOICE = { prefix: [], target: null }; // the model's own translation
const MAX_CHARACTERS = 2000; // of a sentence

// The language of a side of a sentence, as an attribute; null if the model names none.
function languageOf(side, model = page.inspection.model) {
  const [source, target] = page.models[model].languages;
  const language = side === "source" ? source : target;
  return ["source", "target"].includes(language) ? null : language;
}

// The view as a link, and back. The fields of a link are validated: anyone may write one.
function viewToHash() {
  const { text, model, other, byWords, kind, layer, head, prefix, target, padding, theme } = view;
  const fields = { t: text, m: model, o: other, w: byWords ? 1 : 0, k: kind, l: layer, h: head, p: prefix.join("."), g: target ? target.join(".") : "-", d: padding, y: theme };
  return `#${new URLSearchParams(fields)}`;
}

// Until the models are known, the address still holds the view to start with.
function writeLink() {
  if (page.models.length) {
    history.replaceState(null, "", viewToHash());
  }
}

function hashToView(hash) {
  const fields = new URLSearchParams(hash.slice(1));
  const integer = (name, min, max, fallback) => {
    const value = Number(fields.get(name) ?? NaN);
    return Number.isInteger(value) && value >= min && value <= max ? value : fallback;
  };
  const ids = (name) => (fields.get(name) || "").split(".").filter((id) => /^\d{1,7}$/.test(id)).map(Number);
  view.text = truncateText(fields.get("t") || "");
  view.model = integer("m", 0, page.models.length - 1, 0);
  view.other = page.models.length > 1 ? integer("o", 0, page.models.length - 1, -1) : -1;
  view.byWords = fields.get("w") !== "0";
  view.kind = Object.hasOwn(KINDS, fields.get("k")) ? fields.get("k") : "cross";
  view.layer = integer("l", 0, page.models[view.model].layers - 1, page.models[view.model].layers - 1);
  view.head = fields.get("h") === "max" ? "max" : integer("h", fields.get("h") ? 0 : 1, page.models[view.model].heads - 1, "mean");
  view.prefix = ids("p");
  view.target = fields.has("g") && fields.get("g") !== "-" ? ids("g") : null;
  view.padding = integer("d", 0, 16, 0);
  view.theme = ["light", "dark", "auto"].includes(fields.get("y")) ? fields.get("y") : view.theme;
}

// Truncate a text to the characters that are translated, and say so.
function truncateText(text) {
  const characters = [...text];
  byId("too-long").hidden = characters.length <= MAX_CHARACTERS;
  return characters.length <= MAX_CHARACTERS ? text : characters.slice(0, MAX_CHARACTERS).join("");
}
