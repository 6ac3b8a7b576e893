// The page: draw it when something changes, and handle what the user does.

// Drawing

function show() {
  const hasInspection = page.inspection !== null;
  markStale();
  const title = say`What a Transformer sees`;
  document.title = hasInspection ? `${clipText(page.inspection.text, 40)} – ${title}` : title;
  for (const id of ["reading", "player", "stage", "attention", "without", "search"]) {
    byId(id).hidden = !hasInspection;
  }
  showTranslation();
  byId("comparison").hidden = !hasInspection || !page.other;
  byId("swap").hidden = view.other < 0;
  if (hasInspection) {
    view.layer = Math.min(view.layer, page.inspection.layersOf(view.kind) - 1);
    view.head = typeof view.head === "number" ? Math.min(view.head, page.inspection.heads - 1) : view.head;
    fitClock();
    showReading();
    showAttention();
    showBars();
    showTree();
    showClock();
  }
  showWhy();
}

function showReading() {
  byId("pieces-shown").hidden = view.byWords;
  replaceChildren(byId("words"), makePieces(page.inspection, choiceAttributes));
  replaceChildren(byId("nbest"), makeNBest(page.inspection, choiceAttributes));
  if (page.other) {
    replaceChildren(byId("compared"), makeComparison(page.models, [page.inspection, page.other], hasChoice()));
  }
}

// soFar: the effects of the first words, while the others are being left out.
function showBars(soFar = []) {
  const { without } = page.inspection.data;
  const rows = without ?? soFar;
  replaceChildren(byId("bars"), [...makeBars(page.inspection, rows), without ? "" : say`Leaving out words …`]);
  byId("without").classList.toggle("pending", !without);
  byId("bars").classList.toggle("many", rows.length > 15);
}

function showTree() {
  byId("show-tree").textContent = byId("search").classList.contains("open") ? say`Hide the tree` : say`Show the tree`;
  const pieceOf = (id) => page.inspection.data.nodePieces[id];
  replaceChildren(byId("tree"), makeTree(page.inspection, pieceOf, { showCut: view.showCut, room: byId("tree").clientWidth }, choiceAttributes));
  const model = page.models[page.inspection.model];
  byId("tree-note").textContent = say`Search ${model.search}, hypotheses in the beam: ${model.beam}, length penalty ${model.lengthPenalty}. Under each piece: the log-probability so far | the score with the length penalty. ✂ dropped, # rank among the n best, ✕ complete, but not among the n best. Click a hypothesis to see its attention.`;
}

// On a narrow screen the tree is folded until it is asked for.
function toggleTree() {
  const isOpen = byId("search").classList.toggle("open");
  byId("show-tree").ariaExpanded = String(isOpen);
  showTree();
}

// Input

// Leave the text for the player, whose keys then work; elsewhere, remove the highlight and the
// step, or else return to the best translation.
function deselect({ target }) {
  if (target === byId("text")) {
    byId("play").focus({ preventScroll: true });
  } else if (page.highlight || view.step !== null) {
    releaseClock();
  } else if (page.inspection && hasChoice()) {
    resetChoice();
  }
}

function handleKey(event) {
  const isTextInput = event.target.matches("textarea, select, input:not([type='checkbox'])");
  const isShortcut = event.ctrlKey || event.metaKey || (event.altKey && !"[]{}".includes(event.key)); // Option types brackets on some keyboards
  const isOff = event.key.length === 1 && !byId("keys").checked;
  if ((isTextInput && event.key !== "Escape") || isShortcut || isOff || event.isComposing) {
    return;
  }
  const kinds = Object.keys(KINDS);
  const turn = (value, count, by) => (value + by + count) % count;
  const head = typeof view.head === "number" ? view.head : -1;
  const actions = {
    "/": () => byId(page.source.isFrozen ? "sentence" : "text").focus(),
    "[": () => chooseHead({ layer: turn(view.layer, page.inspection.layersOf(view.kind), -1) }),
    "]": () => chooseHead({ layer: turn(view.layer, page.inspection.layersOf(view.kind), 1) }),
    "{": () => chooseHead({ head: turn(Math.max(head, 0), page.inspection.heads, -1) }),
    "}": () => chooseHead({ head: turn(head, page.inspection.heads, 1) }),
    w: () => byId("pieces").click(),
    t: () => byId("theme").click(),
    Escape: deselect,
  };
  kinds.forEach((kind, i) => { actions[i + 1] = () => chooseHead({ kind }); });
  if (actions[event.key] && (page.inspection || "/t".includes(event.key))) {
    event.preventDefault();
    actions[event.key](event);
  }
}

// Draw everything in another language.
function chooseLanguage(code) {
  setLanguage(code);
  byId("language").value = code;
  for (const id of ["heard", "step-heard"]) { // what they said was in another language
    byId(id).textContent = "";
  }
  for (const option of byId("speed").options) {
    option.textContent = `${Number(option.value).toLocaleString(code)}×`;
  }
  showDocuments();
  showLesson();
  showLoading(page.source);
  makeExportButtons();
  setTheme();
  if (page.models.length) {
    showSettings();
  }
}

function setTheme() {
  const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = !page.isPrinted && (view.theme === "dark" || (view.theme === "auto" && prefersDark));
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").textContent = { auto: () => say`Theme: auto`, light: () => say`Theme: light`, dark: () => say`Theme: dark` }[view.theme]();
  if (page.inspection) {
    show();
  }
}

// The page is about the other model, and compares it with this one.
function swapModels() {
  [view.model, view.other] = [view.other, view.model];
  Object.assign(view, NO_CHOICE, { step: null });
  showSettings();
  refresh();
}

async function copyLink() {
  writeLink();
  const isCopied = await copyText(location.href);
  const text = isCopied ? say`The link has been copied.` : say`The address bar has the link.`;
  showStatus(isOnline() ? text : `${text} ${say`It opens this file on this machine. Elsewhere, put what stands from # on behind the address of your own copy.`}`);
}

function addListeners() {
  addPaneListeners();
  byId("show-tree").addEventListener("click", toggleTree);
  addChoiceListeners();
  addStageListeners();
  addPlayerListeners();
  addLessonListeners();
  byId("text").addEventListener("input", handleInput);
  byId("sentence").addEventListener("change", (event) => { Object.assign(view, NO_CHOICE, { step: null, text: event.target.value }); refresh(); });
  byId("model").addEventListener("change", (event) => { Object.assign(view, NO_CHOICE, { step: null, model: Number(event.target.value) }); refresh(); });
  byId("show-settings").addEventListener("click", () => { byId("show-settings").ariaExpanded = String(byId("settings").classList.toggle("open")); });
  byId("swap").addEventListener("click", swapModels);
  byId("other").addEventListener("change", (event) => { view.other = Number(event.target.value); refresh(); });
  byId("padding").addEventListener("change", (event) => { view.padding = Math.min(Math.max(Math.round(event.target.value) || 0, 0), 16); event.target.value = view.padding; refresh(); });
  byId("pieces").addEventListener("change", (event) => { chooseUnit(!event.target.checked); page.highlight = null; writeLink(); show(); });
  byId("cut").addEventListener("change", (event) => { view.showCut = event.target.checked; writeLink(); showTree(); showClock(); });
  byId("theme").addEventListener("click", () => { view.theme = { auto: "light", light: "dark", dark: "auto" }[view.theme]; writeLink(); setTheme(); });
  replaceChildren(byId("language"), Object.entries(PAGE_LANGUAGES).map(([code, { name }]) => makeElement("option", { value: code, lang: code }, name)));
  byId("language").addEventListener("change", (event) => { chooseLanguage(event.target.value); writeLink(); });
  byId("link").addEventListener("click", copyLink);
  byId("as-table").addEventListener("toggle", () => page.matrix && replaceChildren(byId("table"), makeTable(page.matrix)));
  byId("heat").addEventListener("mousemove", (event) => setHighlight(findCell(page.matrix, page.layout, event.offsetX, event.offsetY)));
  byId("heat").addEventListener("mouseleave", () => setHighlight(highlightOfStep()));
  byId("heat").addEventListener("click", (event) => chooseRow(findCell(page.matrix, page.layout, event.offsetX, event.offsetY)));
  byId("heat").addEventListener("keydown", moveInHeat);
  document.addEventListener("keydown", handleKey);
  document.addEventListener("input", () => { page.inputs += 1; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", setTheme);
  addEventListener("hashchange", () => { if (page.models.length) { page.isSettled = false; readLink(); refresh(); } });
  for (const name of ["beforeprint", "afterprint"]) {
    addEventListener(name, () => { page.isPrinted = name === "beforeprint"; setTheme(); showPrinted(); }); // on paper it is light
  }
  addEventListener("resize", () => { if (page.inspection) { showAttention(); showTree(); showClock(); } });
  document.querySelectorAll("[data-roving]").forEach(moveByArrows);
  addWhyListeners();
}

function makeExportButtons() {
  const pictures = { heat: () => heatSvg(page.matrix), grid: () => gridSvg([...byId("grid").children]), tree: () => treeSvg(byId("tree").firstChild) };
  for (const tools of document.querySelectorAll(".exports")) {
    const of = tools.dataset.of;
    replaceChildren(tools, ["svg", "png"].map((format) => makeElement("button", { type: "button", "data-export": `${of}-${format}`, onclick: () => exportPicture(pictures[of](), of, format) }, say`Save as ${format.toUpperCase()}`)));
  }
}

// Read the view from the link. A file has only its own sentences.
function readLink() {
  hashToView(location.hash);
  page.isLinked = location.hash !== "";
  const { isFrozen, hasPadding, texts, example } = page.source;
  if (example && !new URLSearchParams(location.hash.slice(1)).has("t")) {
    view.text = example.text;
  }
  if (!hasPadding) {
    view.padding = 0;
  }
  if (isFrozen) {
    if (view.text && !texts.includes(view.text)) {
      showMisfit(say`The link is for ${quote(clipText(view.text, 40))}, which is not in this file. Choose one of its sentences, or use serve.py.`);
    }
    view.text = texts.includes(view.text) ? view.text : texts[0];
    replaceChildren(byId("sentence"), texts.map((text) => makeElement("option", { value: text, dir: "auto", selected: text === view.text }, text)));
  }
  chooseLanguage(reader.language);
}

// What a page with its own model says of it.
function showLoading({ started }) {
  byId("local").hidden = !started;
  started?.then(() => { byId("local").textContent = say`The model runs in this page. Nothing you type leaves it.`; }, () => { byId("local").hidden = true; });
}

function showSettings() {
  const options = (chosen) => page.models.map(({ name }, i) => makeElement("option", { value: i, selected: i === chosen }, name));
  replaceChildren(byId("model"), options(view.model));
  replaceChildren(byId("other"), makeElement("option", { value: -1, selected: view.other < 0 }, say`nothing`), options(view.other));
  byId("compare-with").hidden = page.models.length < 2;
  byId("pieces").checked = !view.byWords;
  byId("padding").value = view.padding;
  byId("cut").checked = view.showCut;
  byId("text").value = view.text;
  for (const id of ["text", "sentence", "examples"]) {
    byId(id).lang = languageOf("source", view.model) ?? "";
  }
  showModel();
  showCounter();
  showRemark();
}

// data: as for `make_page` of page_files.py.
function makeSource(data) {
  const source = data.server ? new ServerSource(data) : data.engine ? new ModelSource(data) : new FileSource(data);
  return Object.assign(source, { docs: data.docs });
}

// Scroll to the section that the link of the page is about, unless the reader has scrolled,
// or has only loaded the page again.
function scrollToLinked() {
  const [{ type }] = performance.getEntriesByType("navigation");
  const isAboutWhy = view.tab !== "why-not" || view.expected !== "" || view.off.length > 0;
  const id = lesson.number !== null ? LESSON_VIEWS[lesson.number].show : isAboutWhy ? "why" : null;
  if (location.hash && page.inspection && id && type === "navigate" && scrollY === 0) {
    byId(id).scrollIntoView({ block: "start" });
  }
}

async function start() {
  try {
    await fetchModels();
  } catch (error) {
    showStatus(describeError(error), true);
    page.timer = setTimeout(start, RETRY);
    return;
  }
  byId("text").disabled = false; // text typed earlier would be replaced by the link's
  const { isFrozen, hasPadding, started, example } = page.source;
  const isExample = !location.hash && example?.inspection;
  byId("asking").hidden = isFrozen;
  byId("frozen").hidden = !isFrozen;
  byId("padding").parentElement.hidden = !hasPadding;
  readLink();
  if (!location.hash && !matchMedia("(pointer: coarse)").matches) { // a phone would show its keyboard
    byId("text").focus();
  }
  if (isExample) {
    await showExample(example);
  }
  if (!isExample || started) { // a model in the page may have rounded weights
    await refresh();
  }
  scrollToLinked();
}

page.source = makeSource(JSON.parse(byId("data").textContent));
addListeners();
chooseLanguage(findLanguage());
start();
