// The section “Attention”: the grid of all heads, and the heat map of the chosen one.

const GRID_HEIGHT = 760; // pixels

function chooseHead(choice) {
  Object.assign(view, choice);
  view.layer = Math.min(view.layer, page.inspection.layersOf(view.kind) - 1);
  fitClockToHead();
  page.highlight = null;
  writeLink();
  showAttention();
  showClock();
  showWhy();
}

function isSameRun() {
  return page.other !== null && page.models[page.inspection.model].run === page.models[page.other.model].run;
}

function showAttention() {
  const matrixOf = matrixGetter(page.inspection, page.other, view.byWords, isSameRun());
  const room = parseFloat(getComputedStyle(byId("grid")).maxHeight) || GRID_HEIGHT; // NaN: no limit
  replaceChildren(byId("grid"), makeGrid(page.inspection, view, [byId("grid").clientWidth, room - 20], { matrixOf, isCompared: page.other !== null }, chooseHead));
  scrollToChosen(byId("grid"));
  page.matrix = matrixOf(view.kind, view.layer, view.head);
  page.highlight ??= highlightOfStep();
  replaceChildren(byId("choice"), makeHeadChoice(view.head, true));
  page.layout = heatLayout(page.matrix, byId("large").clientWidth || 600);
  showHeat();
  showOtherMatrix();
  showRole();
  if (byId("as-table").open) {
    replaceChildren(byId("table"), makeTable(page.matrix));
  }
}

// Lists to choose a head. `hasAll`: also all heads of a layer together.
function makeHeadChoice(chosenHead, hasAll) {
  const select = (name, values, chosen, pick) => makeElement("label", {}, `${translate(name)} `, makeElement("select", { "data-choice": name, onchange: (event) => pick(event.target.value) },
    values.map(([value, text]) => makeElement("option", { value, selected: String(value) === String(chosen) }, text))));
  const numbers = (count) => Array.from({ length: count }, (_, i) => [i, i + 1]);
  const all = hasAll ? [["mean", say`mean of all`], ["max", say`maximum of all`]] : [];
  return [
    select("Kind", Object.entries(KINDS).map(([kind, { name }]) => [kind, translate(name)]), view.kind, (kind) => chooseHead({ kind })),
    select("Layer", numbers(page.inspection.layersOf(view.kind)), view.layer, (layer) => chooseHead({ layer: Number(layer) })),
    select("Head", [...all, ...numbers(page.inspection.heads)], chosenHead, (head) => chooseHead({ head: /^\d+$/.test(head) ? Number(head) : head })),
  ];
}

function showRole() {
  const { kind, layer, head } = view;
  if (typeof head === "number") {
    const role = page.inspection.role(kind, layer, head);
    byId("role").textContent = `${placeOfHead(kind, layer, head)}: ${say`${translate(role.text)}, ${formatNumber(role.share)}; entropy ${formatNumber(role.entropy)} of at most ${formatNumber(role.most)} bits.`} ${describeComparison()}`;
  } else {
    byId("role").textContent = `${say`${describeHeads(view, page.inspection.heads)}.`} ${describeComparison()}`;
  }
}

// What the heat map shows of the other model.
function describeComparison() {
  if (!page.other) {
    return "";
  }
  if (page.matrix.isDifference) {
    return say`Green: the other model attends more; purple: it attends less.`;
  }
  if (byId("beside").hidden) {
    return say`The other model has no such layer or head.`;
  }
  const reason = typeof view.head === "number" && !isSameRun() ? say`Heads of two training runs have no common order` : say`The words of the two models differ`;
  return say`${reason}: the first model is above, the other below.`;
}

function showHeat() {
  drawHeat(byId("heat"), page.matrix, page.layout, page.highlight);
  replaceChildren(byId("scale"), makeLegend(Boolean(page.matrix.isDifference)));
  const name = translate(KINDS[view.kind].name);
  byId("heat").setAttribute("aria-label", say`${name} attention, layer ${view.layer + 1}. The arrow keys read its cells; the table below has the numbers.`);
  showHighlight();
}

// If the difference of two models cannot be drawn, draw the other model below.
function showOtherMatrix() {
  const matrix = otherMatrix(page.other, view.kind, view.layer, view.head, view.byWords);
  const isBeside = matrix !== null && !page.matrix.isDifference;
  byId("beside").hidden = !isBeside;
  if (isBeside) {
    const { name } = page.models[page.other.model];
    byId("beside-name").textContent = name;
    byId("heat-beside").setAttribute("aria-label", say`Heat map of ${name}, layer ${view.layer + 1}.`);
    drawHeat(byId("heat-beside"), matrix, heatLayout(matrix, byId("large").clientWidth || 600), null);
  }
}

function showHighlight() {
  const chips = byId("chips");
  replaceChildren(chips, makeChips(page.matrix, page.highlight, setHighlight, chooseRow));
  byId("cell").textContent = page.highlight ? describeCell(page.matrix, page.highlight) : "";
}

// Shade the existing chips: replacing them would lose the focus.
function shadeChips(chips) {
  const lines = makeChips(page.matrix, page.highlight, setHighlight, chooseRow);
  const buttons = lines.flatMap((line) => [...line.querySelectorAll("button")]);
  [...chips.querySelectorAll("button")].forEach((chip, i) => {
    chip.className = buttons[i].className;
    chip.ariaPressed = buttons[i].ariaPressed;
    chip.style.background = buttons[i].style.background;
    chip.style.color = buttons[i].style.color;
  });
}

function setHighlight(highlight) {
  if (JSON.stringify(highlight) === JSON.stringify(page.highlight)) {
    return;
  }
  page.highlight = highlight;
  drawHeat(byId("heat"), page.matrix, page.layout, page.highlight);
  shadeChips(byId("chips"));
  writeLinkSoon();
  if (view.kind === "encoder") {
    showStage();
  }
  showInsideRow();
  byId("cell").textContent = highlight ? describeCell(page.matrix, highlight) : "";
}

function moveInHeat(event) {
  const step = ARROWS[event.key];
  if (!step || !page.matrix) {
    return;
  }
  event.preventDefault();
  const { row, column } = page.highlight || {};
  const move = (value, by, count) => (value === undefined ? 0 : Math.min(Math.max(value + by, 0), count - 1));
  const highlight = { row: move(row, step[1], page.matrix.rows), column: move(column, step[0], page.matrix.columns) };
  if (view.step > 0) {
    chooseRow(highlight);
  }
  setHighlight(highlight);
  scrollToHighlight();
}

// Scroll to the highlighted cell if it is not visible.
function scrollToHighlight() {
  const { left, top, cell } = page.layout;
  const frame = byId("heat").parentElement;
  const x = left + page.highlight.column * cell;
  if (x < frame.scrollLeft || x + cell > frame.scrollLeft + frame.clientWidth) {
    frame.scrollLeft = x - frame.clientWidth / 2;
  }
  const y = byId("heat").getBoundingClientRect().top + top + page.highlight.row * cell;
  if (y < 0 || y + cell > innerHeight) {
    scrollBy(0, y - innerHeight / 2);
  }
}
