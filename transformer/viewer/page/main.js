// The page: what is drawn anew when something changes, and what a person does.

function chooseHead(choice) {
  Object.assign(view, choice);
  view.layer = Math.min(view.layer, page.sight.layersOf(view.kind) - 1);
  page.lit = null;
  writeLink();
  showAttention();
}

// What is drawn

function show() {
  const isThere = page.sight !== null;
  markStale();
  for (const id of ["reading", "attention", "without", "search"]) {
    byId(id).hidden = !isThere;
  }
  byId("comparison").hidden = !isThere || !page.other;
  if (isThere) {
    view.layer = Math.min(view.layer, page.sight.layersOf(view.kind) - 1);
    view.head = typeof view.head === "number" ? Math.min(view.head, page.sight.heads - 1) : view.head;
    showReading();
    showAttention();
    replaceChildren(byId("bars"), makeBars(page.sight));
    byId("bars").classList.toggle("many", page.sight.pack.without.length > 15);
    showTree();
  }
}

function showReading() {
  replaceChildren(byId("words"), makeWords(page.sight, view.byWords, choosing));
  replaceChildren(byId("nbest"), makeBest(page.sight, choosing));
  const note = byId("prefix");
  note.hidden = !view.prefix.length && !view.target;
  const kept = view.prefix.length === 1 ? "The first piece is" : `The first ${view.prefix.length} pieces are`;
  replaceChildren(note, view.target ? "This is the hypothesis that you chose. " : `${kept} kept; the rest was decoded again. `,
    make("button", { type: "button", id: "free", onclick: free }, "Back to the model's own translation"));
  if (page.other) {
    replaceChildren(byId("compared"), makeComparison(page.models, [page.sight, page.other], view.prefix.length > 0 || view.target !== null));
  }
}

function isSameRun() {
  return page.other !== null && page.models[page.sight.model].run === page.models[page.other.model].run;
}

function showAttention() {
  const matrixOf = comparedMatrix(page.sight, page.other, view.byWords, isSameRun());
  replaceChildren(byId("grid"), makeGrid(page.sight, view, byId("grid").clientWidth, matrixOf, chooseHead));
  page.matrix = matrixOf(view.kind, view.layer, view.head);
  showChoice();
  page.layout = heatLayout(page.matrix, byId("large").clientWidth || 600);
  showHeat();
  showBeside();
  showRole();
  if (byId("as-table").open) {
    replaceChildren(byId("table"), heatTable(page.matrix));
  }
}

function showChoice() {
  const select = (name, values, chosen, pick) => make("label", {}, `${name} `, make("select", { "data-choice": name, onchange: (event) => pick(event.target.value) },
    values.map(([value, text]) => make("option", { value, selected: String(value) === String(chosen) }, text))));
  const numbers = (count) => Array.from({ length: count }, (_, i) => [i, i + 1]);
  replaceChildren(byId("choice"),
    select("Kind", Object.entries(KINDS).map(([kind, { name }]) => [kind, name]), view.kind, (kind) => chooseHead({ kind })),
    select("Layer", numbers(page.sight.layersOf(view.kind)), view.layer, (layer) => chooseHead({ layer: Number(layer) })),
    select("Head", [["mean", "mean of all"], ["max", "maximum of all"], ...numbers(page.sight.heads)], view.head,
      (head) => chooseHead({ head: /^\d+$/.test(head) ? Number(head) : head })));
}

function showRole() {
  const isOne = typeof view.head === "number";
  const role = isOne && page.sight.role(view.kind, view.layer, view.head);
  const isOther = isOne && !isSameRun();
  const differing = `${isOther ? "Heads of two training runs have no common order" : "The words of the two differ here"}: this model above, the other below. `;
  const lacking = "The other model has no such layer or head. ";
  const alone = page.other ? (byId("beside").hidden ? lacking : differing) : "";
  const compared = page.matrix.isDifference ? "Green: the other model looks more, purple: less. " : alone;
  byId("role").textContent = `${KINDS[view.kind].name}, layer ${view.layer + 1}: ${compared}` + (isOne
    ? `head ${view.head + 1} ${role.text}, ${fixed(role.share)}; entropy ${fixed(role.entropy)} of at most ${fixed(role.most)} bits.`
    : `the ${view.head === "max" ? "maximum" : "mean"} over the ${page.sight.heads} heads.`);
}

function showHeat() {
  drawHeat(byId("heat"), page.matrix, page.layout, page.lit);
  replaceChildren(byId("scale"), page.matrix.isDifference ? "" : makeScale());
  const { name } = KINDS[view.kind];
  byId("heat").setAttribute("aria-label", `${name} attention, layer ${view.layer + 1}. Arrow keys read its cells; the table below has the numbers.`);
  showLit();
}

// Where the words of two models differ there is no difference to draw: theirs, below.
function showBeside() {
  const theirs = otherMatrix(page.other, view.kind, view.layer, view.head, view.byWords);
  const isBeside = theirs !== null && !page.matrix.isDifference;
  byId("beside").hidden = !isBeside;
  if (isBeside) {
    const { name } = page.models[page.other.model];
    byId("beside-name").textContent = name;
    byId("heat-beside").setAttribute("aria-label", `Heat map of ${name}, layer ${view.layer + 1}.`);
    drawHeat(byId("heat-beside"), theirs, heatLayout(theirs, byId("large").clientWidth || 600), null);
  }
}

function showLit() {
  const chips = byId("chips");
  replaceChildren(chips, heatChips(page.matrix, page.lit, light));
  byId("cell").textContent = page.lit ? cellInWords(page.matrix, page.lit) : "";
}

// Shade the chips that are there: one of them has the focus.
function relight(chips) {
  const anew = heatChips(page.matrix, page.lit, light);
  const buttons = anew.flatMap((line) => [...line.querySelectorAll("button")]);
  [...chips.querySelectorAll("button")].forEach((chip, i) => {
    chip.className = buttons[i].className;
    chip.ariaPressed = buttons[i].ariaPressed;
    chip.style.background = buttons[i].style.background;
    chip.style.color = buttons[i].style.color;
  });
}

function light(lit) {
  if (JSON.stringify(lit) === JSON.stringify(page.lit)) {
    return;
  }
  page.lit = lit;
  drawHeat(byId("heat"), page.matrix, page.layout, page.lit);
  relight(byId("chips"));
  byId("cell").textContent = lit ? cellInWords(page.matrix, lit) : "";
}

function showTree() {
  const pieceOf = (id) => page.sight.pack.nodePieces[id];
  replaceChildren(byId("tree"), makeTree(page.sight, pieceOf, byId("cut").checked, choosing));
  const told = page.models[page.sight.model];
  byId("tree-note").textContent = `Search ${told.search}, ${told.beam} ${told.beam === 1 ? "hypothesis" : "hypotheses"} kept, length penalty ${told.lengthPenalty}. Under each piece: the log-probability so far | the score with the length penalty. ✂ cut, # its rank among the n best, ✕ ended but beaten. Click a hypothesis to see its attention.`;
}

// What a person does

function moveInHeat(event) {
  const step = ARROWS[event.key];
  if (!step || !page.matrix) {
    return;
  }
  event.preventDefault();
  const { row, column } = page.lit || {};
  const limited = (value, by, most) => (value === undefined ? 0 : Math.min(Math.max(value + by, 0), most - 1));
  light({ row: limited(row, step[1], page.matrix.rows), column: limited(column, step[0], page.matrix.columns) });
  showLitCell();
}

// Scroll to the cell that is lit, if it is outside of what can be seen.
function showLitCell() {
  const { left, top, cell } = page.layout;
  const frame = byId("heat").parentElement;
  const x = left + page.lit.column * cell;
  if (x < frame.scrollLeft || x + cell > frame.scrollLeft + frame.clientWidth) {
    frame.scrollLeft = x - frame.clientWidth / 2;
  }
  const y = byId("heat").getBoundingClientRect().top + top + page.lit.row * cell;
  if (y < 0 || y + cell > innerHeight) {
    scrollBy(0, y - innerHeight / 2);
  }
}

// Let go of what is lit, else of the translation that was chosen.
function letGo() {
  if (page.lit) {
    light(null);
  } else if (page.sight && (view.prefix.length || view.target)) {
    free();
  }
}

function pressed(event) {
  const isTyped = event.target.matches("textarea, select, input:not([type='checkbox'])");
  const isShortcut = event.ctrlKey || event.metaKey || (event.altKey && !"[]{}".includes(event.key)); // Option types brackets on some keyboards
  const isOff = event.key.length === 1 && !byId("keys").checked;
  if ((isTyped && event.key !== "Escape") || isShortcut || isOff) {
    return;
  }
  const kinds = Object.keys(KINDS);
  const turn = (value, count, by) => (value + by + count) % count;
  const head = typeof view.head === "number" ? view.head : -1;
  const acts = {
    "/": () => byId(page.source.isFrozen ? "sentence" : "text").focus(),
    "[": () => chooseHead({ layer: turn(view.layer, page.sight.layersOf(view.kind), -1) }),
    "]": () => chooseHead({ layer: turn(view.layer, page.sight.layersOf(view.kind), 1) }),
    "{": () => chooseHead({ head: turn(Math.max(head, 0), page.sight.heads, -1) }),
    "}": () => chooseHead({ head: turn(head, page.sight.heads, 1) }),
    w: () => byId("pieces").click(),
    t: () => byId("theme").click(),
    Escape: letGo,
  };
  kinds.forEach((kind, i) => { acts[i + 1] = () => chooseHead({ kind }); });
  if (acts[event.key] && (page.sight || "/t".includes(event.key))) {
    event.preventDefault();
    acts[event.key]();
  }
}

function setTheme() {
  const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = !page.isPrinted && (view.theme === "dark" || (view.theme === "auto" && prefersDark));
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").textContent = `Theme: ${view.theme}`;
  if (page.sight) {
    show();
  }
}

// A page that is not served securely may not write to the clipboard.
async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link has been copied.");
  } catch {
    say("The address bar has the link.");
  }
}

function listen() {
  byId("text").addEventListener("input", typed);
  byId("sentence").addEventListener("change", (event) => { Object.assign(view, FREE, { text: event.target.value }); look(); });
  byId("model").addEventListener("change", (event) => { Object.assign(view, FREE, { model: Number(event.target.value) }); look(); });
  byId("other").addEventListener("change", (event) => { view.other = Number(event.target.value); look(); });
  byId("padding").addEventListener("change", (event) => { view.padding = Math.min(Math.max(Math.round(event.target.value) || 0, 0), 16); event.target.value = view.padding; look(); });
  byId("pieces").addEventListener("change", (event) => { view.byWords = !event.target.checked; page.lit = null; writeLink(); show(); });
  byId("cut").addEventListener("change", showTree);
  byId("theme").addEventListener("click", () => { view.theme = { auto: "light", light: "dark", dark: "auto" }[view.theme]; writeLink(); setTheme(); });
  byId("link").addEventListener("click", copyLink);
  byId("as-table").addEventListener("toggle", () => page.matrix && replaceChildren(byId("table"), heatTable(page.matrix)));
  byId("heat").addEventListener("mousemove", (event) => light(heatPlace(page.matrix, page.layout, event.offsetX, event.offsetY)));
  byId("heat").addEventListener("mouseleave", () => light(null));
  byId("heat").addEventListener("keydown", moveInHeat);
  document.addEventListener("keydown", pressed);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", setTheme);
  addEventListener("hashchange", () => { if (page.models.length) { readLink(); look(); } });
  for (const name of ["beforeprint", "afterprint"]) {
    addEventListener(name, () => { page.isPrinted = name === "beforeprint"; setTheme(); }); // on paper it is light
  }
  addEventListener("resize", () => page.sight && showAttention());
  document.querySelectorAll("[data-roving]").forEach(rove);
  const pictures = { heat: () => heatSvg(page.matrix), grid: () => gridSvg([...byId("grid").children]), tree: () => treeSvg(byId("tree").firstChild) };
  for (const tools of document.querySelectorAll(".exports")) {
    const of = tools.dataset.of;
    replaceChildren(tools, ["svg", "png"].map((format) => make("button", { type: "button", "data-export": `${of}-${format}`, onclick: () => exportPicture(pictures[of](), of, format) }, `Save as ${format.toUpperCase()}`)));
  }
}

// What the link says, as far as it is there: a file has its own sentences alone.
function readLink() {
  hashToView(location.hash);
  const { isFrozen, texts } = page.source;
  if (isFrozen) {
    view.text = texts.includes(view.text) ? view.text : texts[0];
    view.padding = 0;
    replaceChildren(byId("sentence"), texts.map((text) => make("option", { value: text, dir: "auto", selected: text === view.text }, text)));
  }
  setTheme();
  showSettings();
}

function showSettings() {
  const options = (chosen) => page.models.map(({ name }, i) => make("option", { value: i, selected: i === chosen }, name));
  replaceChildren(byId("model"), options(view.model));
  replaceChildren(byId("other"), make("option", { value: -1, selected: view.other < 0 }, "nothing"), options(view.other));
  byId("compare-with").hidden = page.models.length < 2;
  byId("pieces").checked = !view.byWords;
  byId("padding").value = view.padding;
  byId("text").value = view.text;
  showRemark();
}

async function begin() {
  try {
    await askModels();
  } catch (error) {
    say(error.message, true);
    page.timer = setTimeout(begin, RETRY);
    return;
  }
  byId("text").disabled = false; // what is typed earlier, the link would replace
  const { isFrozen } = page.source;
  byId("asking").hidden = isFrozen;
  byId("frozen").hidden = !isFrozen;
  byId("padding").parentElement.hidden = isFrozen;
  readLink();
  await look();
}

const data = JSON.parse(byId("data").textContent);
page.source = data.server ? new FromServer() : new FromFile(data);
setTheme();
listen();
begin();
