// The current view, and the link that encodes it.

const page = { source: null, models: [], sight: null, other: null, lit: null, matrix: null, layout: null, asking: null, timer: 0, isPrinted: false };
const view = { text: "", model: 0, other: -1, byWords: true, kind: "cross", layer: 0, head: "mean", prefix: [], target: null, padding: 0, theme: "auto" };
const FREE = { prefix: [], target: null }; // the model's own translation
const MOST_CHARACTERS = 2000; // of a sentence

// The view as a link, and back. What a link says is checked like anything from outside.
function viewToHash() {
  const { text, model, other, byWords, kind, layer, head, prefix, target, padding, theme } = view;
  const fields = { t: text, m: model, o: other, w: byWords ? 1 : 0, k: kind, l: layer, h: head, p: prefix.join("."), g: target ? target.join(".") : "-", d: padding, y: theme };
  return `#${new URLSearchParams(fields)}`;
}

// Before the models are known, the address still holds the view to begin with.
function writeLink() {
  if (page.models.length) {
    history.replaceState(null, "", viewToHash());
  }
}

function hashToView(hash) {
  const fields = new URLSearchParams(hash.slice(1));
  const number = (name, least, most, otherwise) => {
    const value = Number(fields.get(name) ?? NaN);
    return Number.isInteger(value) && value >= least && value <= most ? value : otherwise;
  };
  const ids = (name) => (fields.get(name) || "").split(".").filter((one) => /^\d{1,7}$/.test(one)).map(Number);
  view.text = cut(fields.get("t") || "");
  view.model = number("m", 0, page.models.length - 1, 0);
  view.other = page.models.length > 1 ? number("o", 0, page.models.length - 1, -1) : -1;
  view.byWords = fields.get("w") !== "0";
  view.kind = Object.hasOwn(KINDS, fields.get("k")) ? fields.get("k") : "cross";
  view.layer = number("l", 0, page.models[view.model].layers - 1, page.models[view.model].layers - 1);
  view.head = fields.get("h") === "max" ? "max" : number("h", fields.get("h") ? 0 : 1, page.models[view.model].heads - 1, "mean");
  view.prefix = ids("p");
  view.target = fields.has("g") && fields.get("g") !== "-" ? ids("g") : null;
  view.padding = number("d", 0, 16, 0);
  view.theme = ["light", "dark", "auto"].includes(fields.get("y")) ? fields.get("y") : view.theme;
}

// A text of at most the characters that are translated; the page says where it was cut.
function cut(text) {
  const characters = [...text];
  byId("too-long").hidden = characters.length <= MOST_CHARACTERS;
  return characters.length <= MOST_CHARACTERS ? text : characters.slice(0, MOST_CHARACTERS).join("");
}
