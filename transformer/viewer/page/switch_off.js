// "Switch off": the translation without some attention heads, and what each one contributes.

const SMALL_CHANGE = 0.1; // of a log-probability
const SHARP = 0.5; // of its attention, with which a head looks important

// The name of a head, such as "cross 2.3": layer 2, head 3.
function nameHead({ kind, layer, head }) {
  return `${translate(kind)} ${layer + 1}.${head + 1}`;
}

function listHeads(inspection) {
  return Object.keys(KINDS).flatMap((kind) => Array.from({ length: inspection.layersOf(kind) * inspection.heads }, (_, i) =>
    ({ kind, layer: Math.floor(i / inspection.heads), head: i % inspection.heads })));
}

function isOff({ kind, layer, head }) {
  return view.off.includes([kind, layer, head].join("."));
}

// The heads that are off, of those that this model has.
function headsOff() {
  return listHeads(page.inspection).filter(isOff);
}

function switchHead(name) {
  const id = [name.kind, name.layer, name.head].join(".");
  view.off = isOff(name) ? view.off.filter((other) => other !== id) : [...view.off, id];
  writeLink();
  showHeadsOff();
  showSwitches();
}

function switchAllOn() {
  view.off = [];
  writeLink();
  showWhy();
}

// Say at the top of the page which heads are off.
function showHeadsOff() {
  const off = byId("why").hidden ? [] : headsOff();
  byId("heads-off").hidden = off.length === 0;
  replaceChildren(byId("heads-off"), off.length === 0 ? "" : [say`Switched off: ${joinNames(off)}. This changes only the section “Why?”; the rest of the page uses all heads.`, " ",
    makeElement("button", { type: "button", id: "heads-on", onclick: () => { itemsOf(byId("translation")).find((item) => item.tabIndex === 0)?.focus(); switchAllOn(); } }, say`Switch all on`)]);
}

async function showSwitches() {
  const { inspection } = page;
  const heads = listHeads(inspection);
  const off = headsOff();
  byId("try-all").textContent = say`Try all ${heads.length}`;
  byId("all-on").hidden = off.length === 0;
  byId("sorted").parentElement.hidden = !inspection.changes;
  drawSwitches(inspection, heads);
  showRanking(inspection, heads);
  const key = off.map(nameHead).join();
  inspection.ablations ??= new Map();
  if (off.length && !inspection.ablations.has(key)) {
    byId("ablated").textContent = say`Translating without ${joinNames(off)} …`;
    const answer = await askWhenVisible("switch-off", key, (signal) => page.source.ablate(inspection, off, signal), byId("ablated"));
    if (!answer) {
      return;
    }
    inspection.ablations.set(key, answer);
    if (page.inspection === inspection && view.tab === "switch-off") {
      showSwitches();
    }
    return;
  }
  replaceChildren(byId("ablated"), off.length ? describeAblation(inspection, off, inspection.ablations.get(key)) : say`All heads are on. Switch one off, and the sentence is translated again.`);
}

function joinNames(heads) {
  return heads.map(nameHead).join(", ");
}

// "Without cross 2.3: The woman who visit … score −3.20 (was −0.31)", with different words marked.
function describeAblation(inspection, off, { nBest: [best], score }) {
  const [before, after] = [textOf(inspection), best.text].map((text) => text.split(" "));
  const isCommon = findCommonWords(before, after)[1];
  const was = findDisplayed(inspection)?.score ?? null;
  return [
    say`Without ${joinNames(off)}:`, " ",
    makeElement("span", { class: "ablated", dir: "auto", lang: languageOf("target") }, after.flatMap((word, i) => [isCommon[i] ? word : makeElement("mark", {}, word), " "])),
    makeElement("span", { class: "number", title: formatNumber(best.score, 4) }, was === null ? say`score ${formatNumber(best.score)}` : say`score ${formatNumber(best.score)} (was ${formatNumber(was)})`),
    before.join() === after.join() ? say`, the same translation.` : say`. The translation above would have the score ${formatNumber(score)}.`,
  ];
}

async function tryAll() {
  const { inspection } = page;
  byId("ranking").textContent = say`Switching off each head alone …`;
  const answer = await askWhenVisible("switch-off", "each", (signal) => page.source.ablateEach(inspection, signal), byId("ranking"));
  if (answer) {
    inspection.changes = answer;
    if (page.inspection === inspection) {
      showWhy();
    }
    await compareTexts(inspection);
  }
}

// Translate without each head alone, the most needed one first, to mark those without which the
// text is another; until another sentence is inspected.
async function compareTexts(inspection) {
  const { changes } = inspection;
  const heads = listHeads(inspection).sort((a, b) => changes[a.kind][a.layer][a.head] - changes[b.kind][b.layer][b.head]);
  inspection.texts ??= new Map(); // the name of a head → the translation without it
  for (const name of heads) {
    if (page.inspection !== inspection || view.tab !== "switch-off") {
      return;
    }
    try {
      const { nBest: [best] } = await page.source.ablate(inspection, [name]);
      inspection.texts.set(nameHead(name), best.text);
    } catch {
      return; // the marks so far stay
    }
    if (page.inspection === inspection && view.tab === "switch-off") {
      drawSwitches(inspection, listHeads(inspection));
      showRanking(inspection, heads);
    }
  }
}

// Whether the translation without a head is another one, as far as that is known.
function changesText(inspection, name) {
  const text = inspection.texts?.get(nameHead(name));
  return text !== undefined && text !== inspection.data.nBest[0].text;
}

// The switches: in tables by kind and layer, or sorted by what the heads contribute.
function drawSwitches(inspection, heads) {
  const { changes } = inspection;
  const changeOf = ({ kind, layer, head }) => changes?.[kind][layer][head];
  const largest = Math.max(SMALL_CHANGE, ...(changes ? heads.map((name) => Math.abs(changeOf(name))) : []));
  const make = (name, isNamed) => makeSwitch(inspection, name, changeOf(name), largest, isNamed);
  if (changes && byId("sorted").checked) {
    const sorted = [...heads].sort((a, b) => changeOf(a) - changeOf(b));
    replaceChildren(byId("switches"), makeElement("div", { class: "flow" }, sorted.map((name) => make(name, true))));
    return;
  }
  replaceChildren(byId("switches"), Object.entries(KINDS).map(([kind, { name: title }]) => makeElement("table", {}, makeElement("caption", {}, translate(title)),
    Array.from({ length: inspection.layersOf(kind) }, (_, layer) => makeElement("tr", {}, makeElement("th", { scope: "row" }, say`layer ${layer + 1}`),
      heads.filter((head) => head.kind === kind && head.layer === layer).map((name) => makeElement("td", {}, make(name, false))))))));
}

function makeSwitch(inspection, name, change, largest, isNamed) {
  const { kind, layer, head } = name;
  const canvas = makeElement("canvas", {});
  drawThumbnail(canvas, inspection.matrix(kind, layer, head, view.byWords));
  const role = inspection.role(kind, layer, head);
  const place = placeOfHead(kind, layer, head);
  const isOther = changesText(inspection, name);
  const number = change === undefined ? "" : formatNumber(change) + (isOther ? " ≠" : "");
  const visible = [isNamed ? nameHead(name) : "", number].filter(Boolean).join(" ");
  const button = makeElement("button", {
    type: "button", role: "switch", "aria-checked": String(!isOff(name)), "aria-label": [visible, place].filter(Boolean).join(", "),
    title: `${place}: ${translate(role.text)}, ${formatNumber(role.share)}${change === undefined ? "" : say`; without it ${formatNumber(change, 4)}`}${isOther ? say`, and another translation` : ""}`,
    "data-switch": `${kind}-${layer}-${head}`, onclick: () => switchHead(name),
  }, canvas, isNamed ? makeElement("span", { class: "name" }, `${nameHead(name)} `) : []);
  if (change !== undefined) {
    const colour = makeElement("span", { class: "colour" });
    colour.style.background = toCss(signedColour(change / largest));
    button.append(makeElement("span", { class: "change" }, number), colour);
  }
  return button;
}

// Which head the translation needs most, and which one only looks important.
function showRanking(inspection, heads) {
  const { changes } = inspection;
  if (!changes) {
    byId("ranking").textContent = "";
    return;
  }
  const items = heads.map((name) => ({ name, change: changes[name.kind][name.layer][name.head], role: inspection.role(name.kind, name.layer, name.head) }));
  const worst = items.reduce((a, b) => (b.change < a.change ? b : a));
  const sharp = items.filter(({ change, role }) => Math.abs(change) < SMALL_CHANGE && role.share >= SHARP && !role.text.startsWith("looks everywhere")).sort((a, b) => b.role.share - a.role.share)[0];
  const describe = ({ name, change }) => `${nameHead(name)} (${formatNumber(change)})`;
  const important = sharp ? say`Looks important, but is not needed alone: ${describe(sharp)}: ${translate(sharp.role.text)}, ${formatNumber(sharp.role.share)}.` : "";
  const { size = 0 } = inspection.texts ?? {};
  const others = heads.filter((name) => changesText(inspection, name)).length;
  const compared = others
    ? say`Translated without each head: ${size} of ${heads.length}; ≠ marks ${others} without which the translation is another.`
    : size < heads.length
      ? say`Translated without each head: ${size} of ${heads.length}; so far, the translation is the same.`
      : say`Translated without each head: ${heads.length} of ${heads.length}; the translation is always the same.`;
  const texts = size ? compared : "";
  byId("ranking").textContent = [say`The numbers: how the log-probability of this translation changes without the head. Most needed: ${describe(worst)}.`, important, texts].filter(Boolean).join(" ");
}

function addSwitchListeners() {
  byId("try-all").addEventListener("click", tryAll);
  byId("all-on").addEventListener("click", () => {
    byId("try-all").focus();
    switchAllOn();
  });
  byId("sorted").addEventListener("change", showSwitches);
}
