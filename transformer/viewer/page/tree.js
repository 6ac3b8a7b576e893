// The beam tree: every hypothesis of every decoding step.

const TREE = { column: 112, row: 30 };
const FATES = {
  open: "is continued",
  cut: "was dropped: others at this step are more likely",
  ended: "is complete, and is one of the n best",
  beaten: "is complete, but others score better",
  chosen: "is complete; you chose it",
};

function nodesOf(data) {
  return data.nodes.map(([parent, step, id, logProb, score, fate, rank], number) =>
    ({ parent, step, id, logProb, score, fate, rank, number, row: 0 }));
}

// Give each node a row: that of its parent, or the next free one below.
function placeNodes(nodes, showCut) {
  const shown = nodes.filter((node) => showCut || node.fate !== "cut");
  const heights = []; // of the columns, in rows
  const parentRow = (node) => (node.parent < 0 ? 0 : nodes[node.parent].row);
  for (let step = 1; shown.some((node) => node.step === step); step += 1) {
    const column = shown.filter((node) => node.step === step);
    column.sort((a, b) => parentRow(a) - parentRow(b) || b.logProb - a.logProb);
    let row = 0;
    for (const node of column) {
      node.row = Math.max(row, parentRow(node));
      row = node.row + 1;
    }
    heights.push(row);
  }
  return { shown, rows: Math.max(0, ...heights), steps: heights.length };
}

function idsOf(nodes, number) {
  const ids = [];
  for (let at = number; at >= 0; at = nodes[at].parent) {
    ids.unshift(nodes[at].id);
  }
  return ids;
}

function makeTree(inspection, pieceOf, showCut, choiceAttributes) {
  const nodes = nodesOf(inspection.data);
  const { shown, rows, steps } = placeNodes(nodes, showCut);
  const displayed = inspection.data.target.ids.slice(0, -1).join();
  const path = new Set();
  for (let at = nodes.findIndex((node) => node.rank === 0); at >= 0; at = nodes[at].parent) {
    path.add(at);
  }
  const width = steps * TREE.column + 30;
  const height = rows * TREE.row + 20;
  const picture = makeSvg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Beam tree", "font-family": "system-ui, sans-serif" });
  shown.forEach((node) => picture.append(makeBranch(nodes, node, path)));
  const { prefix } = inspection;
  shown.forEach((node) => picture.append(makeNode(nodes, node, pieceOf, path, choiceAttributes, { prefix, displayed })));
  return picture;
}

function nodeX(node) {
  return (node.step - 1) * TREE.column + 14;
}

function nodeY(node) {
  return node.row * TREE.row + 18;
}

function makeBranch(nodes, node, path) {
  const parent = nodes[node.parent];
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
  const description = `${pieceOf(node.id)}: log-probability ${formatNumber(node.logProb, 3)}, score with the length penalty ${formatNumber(node.score, 3)}; step ${node.step}; this hypothesis ${FATES[node.fate]}`;
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
