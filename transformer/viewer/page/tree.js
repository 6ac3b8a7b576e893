// The beam tree: every hypothesis of every decoding step.

const TREE = { column: 112, row: 30, minColumns: 5 };
const FATES = {
  open: () => say`it is continued`,
  cut: () => say`it was dropped: others at this step are more likely`,
  ended: () => say`it is complete, and is one of the n best`,
  beaten: () => say`it is complete, but others score better`,
  chosen: () => say`it is complete; you chose it`,
};

function nodesOf(data) {
  return data.nodes.map(([parent, step, id, logProb, score, fate, rank], number) =>
    ({ parent, step, id, logProb, score, fate, rank, number, row: 0 }));
}

// Lay the tree out in strips of `columns` steps, one below the other, so that it is as wide
// as the page. A strip begins with the nodes that its first step continues: `repeated`.
// Sets `column`, `row` and `strip` of the nodes; rows count from the top of the picture.
function placeNodes(nodes, showCut, columns) {
  const shown = nodes.filter((node) => showCut || node.fate !== "cut");
  const numSteps = Math.max(0, ...shown.map(({ step }) => step));
  const repeated = [];
  let top = 0;
  for (let step = 1; step <= numSteps; step += columns) {
    const strip = shown.filter((node) => node.step >= step && node.step < step + columns);
    const parents = new Set(strip.filter((node) => node.step === step && node.parent >= 0).map(({ parent }) => nodes[parent]));
    const copies = [...parents].map((node) => ({ ...node }));
    const copyOf = new Map(copies.map((copy) => [copy.number, copy]));
    const parentOf = (node) => copyOf.get(node.parent) ?? nodes[node.parent];
    const steps = [copies, ...Array.from({ length: columns }, (_, i) => strip.filter((node) => node.step === step + i))];
    const height = Math.max(...steps.map(({ length }) => length));
    steps.forEach((column, i) => placeColumn(column, { parentOf, top, height, column: step === 1 ? i - 1 : i, isFirst: i === 0 }));
    strip.forEach((node) => { node.origin = parentOf(node); });
    repeated.push(...copies);
    top += height + 1;
  }
  return { shown, repeated, rows: Math.max(0, top - 1), columns: Math.min(numSteps, columns + 1) };
}

// Give each node of a step the row of its parent, or the next free one below; but no lower
// than leaves room for the rest.
function placeColumn(nodes, { parentOf, top, height, column, isFirst }) {
  const parentRow = (node) => (isFirst ? node.row : parentOf(node)?.row ?? top);
  nodes.sort((a, b) => parentRow(a) - parentRow(b) || b.logProb - a.logProb);
  let row = top;
  nodes.forEach((node, i) => {
    const wanted = isFirst ? row : Math.max(row, parentRow(node));
    node.row = Math.min(wanted, top + height - nodes.length + i);
    node.column = column;
    row = node.row + 1;
  });
}

function idsOf(nodes, number) {
  const ids = [];
  for (let at = number; at >= 0; at = nodes[at].parent) {
    ids.unshift(nodes[at].id);
  }
  return ids;
}

// `room`: the width in pixels that the tree may take.
function makeTree(inspection, pieceOf, { showCut, room }, choiceAttributes) {
  const nodes = nodesOf(inspection.data);
  const fitting = Math.max(TREE.minColumns, Math.floor((room - 30) / TREE.column) - 1);
  const { shown, repeated, rows, columns } = placeNodes(nodes, showCut, fitting);
  const displayed = inspection.data.target.ids.slice(0, -1).join();
  const path = new Set();
  for (let at = nodes.findIndex((node) => node.rank === 0); at >= 0; at = nodes[at].parent) {
    path.add(at);
  }
  const width = columns * TREE.column + 30;
  const height = rows * TREE.row + 20;
  const picture = makeSvg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": say`Beam tree`, "font-family": "system-ui, sans-serif" });
  shown.forEach((node) => picture.append(makeBranch(node, path)));
  repeated.forEach((node) => picture.append(makeSvg("text", { x: nodeX(node), y: nodeY(node) + 1, "font-size": 13, "aria-hidden": "true", fill: themeColour("--soft") }, `… ${clipText(pieceOf(node.id), 11)}`)));
  const { prefix } = inspection;
  shown.forEach((node) => picture.append(makeNode(nodes, node, pieceOf, path, choiceAttributes, { prefix, displayed })));
  return picture;
}

function nodeX(node) {
  return node.column * TREE.column + 14;
}

function nodeY(node) {
  return node.row * TREE.row + 18;
}

function makeBranch(node, path) {
  const parent = node.origin;
  const x = nodeX(node) - 4;
  const start = parent ? [nodeX(parent) + TREE.column - 26, nodeY(parent)] : [0, nodeY(node)];
  const isBest = path.has(node.number);
  return makeSvg("path", {
    d: `M${start[0]} ${start[1]} C${x - 8} ${start[1]} ${start[0] + 8} ${nodeY(node)} ${x} ${nodeY(node)}`,
    fill: "none", stroke: themeColour(isBest ? "--accent" : "--soft"), "stroke-opacity": isBest ? 1 : 0.55, "stroke-width": isBest ? 2.5 : 1,
    "stroke-dasharray": node.fate === "cut" ? "3 3" : null,
  });
}

function makeNode(nodes, node, pieceOf, path, choiceAttributes, { prefix, displayed }) {
  const marks = { open: "", cut: " ✂", ended: ` #${node.rank + 1}`, beaten: " ✕", chosen: "" };
  const colour = themeColour(path.has(node.number) ? "--accent" : node.fate === "cut" ? "--soft" : "--ink");
  const numbers = `${formatNumber(node.logProb)} | ${formatNumber(node.score)}`;
  const hasEnd = ["ended", "beaten", "chosen"].includes(node.fate);
  const target = idsOf(nodes, node.number).slice(0, hasEnd ? -1 : undefined);
  const isShown = target.join() === displayed;
  const attributes = { ...choiceAttributes({ prefix, target }), "aria-pressed": String(isShown) };
  const piece = clipText(pieceOf(node.id), 11) + marks[node.fate];
  const description = say`${pieceOf(node.id)}: log-probability ${formatNumber(node.logProb, 3)}, score with the length penalty ${formatNumber(node.score, 3)}; step ${node.step}; ${FATES[node.fate]()}`;
  return makeSvg("g", { class: "node", role: "button", "data-node": node.number, ...attributes,
    onkeydown: (event) => (event.key === "Enter" || event.key === " ") && pressNode(event) },
  makeSvg("title", {}, description),
  makeSvg("rect", { x: nodeX(node) - 4, y: nodeY(node) - 14, width: TREE.column - 26, height: TREE.row - 2, "fill-opacity": 0, stroke: isShown ? themeColour("--accent") : "none", rx: 4 }),
  makeSvg("text", { x: nodeX(node), y: nodeY(node) + 1, "font-size": 13, fill: colour, "font-weight": path.has(node.number) ? 600 : 400 }, `${piece} `),
  makeSvg("text", { x: nodeX(node), y: nodeY(node) + 12, "font-size": 9, fill: themeColour("--soft") }, numbers));
}

// Enter and Space, as on an HTML button.
function pressNode(event) {
  event.preventDefault();
  event.currentTarget.dispatchEvent(new MouseEvent("click"));
}
