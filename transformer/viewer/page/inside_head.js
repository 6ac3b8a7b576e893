// "Inside this head": what an attention head computes for one query, in five boxes.

const MAX_KEYS = 14; // of a sentence, which are shown at first
// The steps of the formula: what a box is called, and its line in blocks/attention.py.
const BOXES = [
  { name: "Query", code: "outputs = dense(x, num_units, dialect.projection_bias, name, activation)" },
  { name: "Keys", code: 'project(keys, num_units, num_heads, dialect, "k")' },
  { name: "q · k / √dₖ", code: "tf.matmul(queries, keys, transpose_b=True)" },
  { name: "Softmax", code: "weights = tf.nn.softmax(logits)" },
  { name: "Values", code: "context = tf.matmul(dropped, values)" },
];
// Equation 1 of the paper: its symbols, and the boxes that each belongs to.
const FORMULA = [
  ["softmax(", [3]], ["Q ", [0, 2, 3]], ["K", [1, 2, 3], "sup", "T"], [" / √d", [2, 3], "sub", "k"], [")", [3]], [" V", [4]],
];

// `piece`: the query; `skipped`: a highlighted row whose piece is not shown; `key`: the key that is pointed at; `box`: the box that is.
const inside = { inspection: null, side: null, piece: null, shownQuery: null, skipped: null, key: null, box: null, temperature: 1, isComplete: false };

// The head in view; of all heads together, the one that looks most sharply.
function headInView() {
  const { kind, layer, head } = view;
  if (typeof head === "number") {
    return head;
  }
  const largest = (index) => Math.max(...rowOf(page.inspection.matrix(kind, layer, index, false), queryInView()));
  return Array.from({ length: page.inspection.heads }, (_, index) => index).reduce((best, index) => (largest(index) > largest(best) ? index : best));
}

// The piece whose query is shown: of the highlighted word, or the latest one; at first, the
// first piece of a word, since there is little to see at a full stop or the end.
function queryInView() {
  const { inspection } = page;
  const side = KINDS[view.kind].rows;
  const pieces = inspection.data[side].pieces;
  const isWord = (piece) => /^[^⟨]*[\p{L}\p{N}]/u.test(piece);
  const count = pieces.length;
  if (inside.inspection !== inspection || inside.side !== side) {
    const isTarget = side !== "source";
    const wasTarget = inside.side && inside.side !== "source";
    const isNew = inside.inspection !== inspection || isTarget !== wasTarget;
    const first = Math.max(pieces.findIndex(isWord), 0);
    const highlighted = page.highlight?.row;
    const skipped = highlighted !== undefined && view.step === null && !isWord(inspection.labels(side, view.byWords)[highlighted]) ? highlighted : null;
    Object.assign(inside, { inspection, skipped, side, piece: isNew ? first : inside.piece, isComplete: false, key: null });
  }
  if (page.highlight?.row !== inside.skipped) {
    inside.skipped = null;
  }
  const row = inside.skipped === null ? page.highlight?.row : undefined;
  const [start, end] = row === undefined ? [0, count] : inspection.spans(side, view.byWords)[row];
  if (inside.piece < start || inside.piece >= end) {
    inside.piece = start;
  }
  return inside.piece;
}

function rowOf(matrix, row) {
  return [...matrix.values.slice(row * matrix.columns, (row + 1) * matrix.columns)];
}

// Show the head in view, which is asked for when the panel is visible.
async function showInside() {
  const { inspection } = page;
  const query = queryInView();
  const name = { kind: view.kind, layer: view.layer, head: headInView() };
  replaceChildren(byId("inside-choice"), makeHeadChoice(name.head, false));
  const key = Object.values(name).join();
  inspection.insides ??= new Map();
  byId("chain").classList.toggle("pending", !inspection.insides.has(key));
  if (!inspection.insides.has(key)) {
    byId("inside-note").textContent = say`Reading the head …`;
    const answer = await askWhenVisible("inside", key, (signal) => page.source.inspectHead(inspection, name, signal), byId("inside-note"));
    if (!answer) {
      return;
    }
    inspection.insides.set(key, mapFloats(answer));
    if (page.inspection === inspection && view.tab === "inside") {
      showInside();
    }
    return;
  }
  showChain(inspection.insides.get(key), name);
}

function mapFloats(answer) {
  const decode = ({ shape, data }) => ({ width: shape[1], data: typeof data === "string" ? decodeFloats(data) : data });
  return { ...answer, queries: decode(answer.queries), keys: decode(answer.keys), values: decode(answer.values) };
}

function decodeFloats(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// SentencePiece marks the beginning of a word by "▁".
function shownPiece(piece) {
  return piece.replaceAll("▁", " ").trim() || piece;
}

// What the head computes for a query: keys, logits and weights, of the keys that are shown.
function computeRow({ queries, keys, values }, { kind, layer, head }, query) {
  const width = queries.width; // d_k
  const rowOfFloats = (floats, i) => floats.data.subarray(i * floats.width, (i + 1) * floats.width);
  const matrix = page.inspection.matrix(kind, layer, head, false);
  const labels = page.inspection.data[KINDS[kind].columns].pieces.map(shownPiece);
  const q = rowOfFloats(queries, query);
  const items = labels.map((label, i) => {
    const k = rowOfFloats(keys, i);
    const products = q.map((value, j) => value * k[j]);
    const product = products.reduce((sum, value) => sum + value, 0);
    return { i, label, k, v: rowOfFloats(values, i), products, product, logit: product / Math.sqrt(width), reason: matrix.maskReason(query, i) };
  });
  const weights = computeSoftmax(items, 1);
  const output = new Float32Array(values.width); // d_v
  items.forEach(({ v }, i) => v.forEach((value, j) => { output[j] += weights[i] * value; }));
  return { q, width, items: items.map((item, i) => ({ ...item, weight: weights[i] })), output };
}

// The weights of keys; those that are masked get 0.
function computeSoftmax(items, temperature) {
  const largest = Math.max(...items.map(({ logit, reason }) => (reason ? -Infinity : logit)));
  const powers = items.map(({ logit, reason }) => (reason ? 0 : Math.exp((logit - largest) / temperature)));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

// The keys that are shown, in their order: those with the largest weights.
function chooseKeys(items) {
  if (inside.isComplete || items.length <= MAX_KEYS) {
    return items;
  }
  const best = [...items].sort((a, b) => b.weight - a.weight).slice(0, MAX_KEYS);
  return items.filter((item) => best.includes(item));
}

function showChain(tensors, name) {
  const query = queryInView();
  const row = computeRow(tensors, name, query);
  const shown = chooseKeys(row.items);
  const labels = page.inspection.data[KINDS[name.kind].rows].pieces.map(shownPiece);
  replaceChildren(byId("formula"), makeFormula());
  const boxes = [makeQueryBox(row, query, labels), makeKeysBox(row, shown), makeLogitsBox(row, shown), makeSoftmaxBox(row, shown), makeValuesBox(row, shown, tensors.alternatives[query])];
  replaceChildren(byId("chain"), boxes.map((children, box) => makeElement("li", {
    class: "box", "data-box": box, onmouseenter: () => choosePart(box), onfocusin: () => choosePart(box), onclick: () => choosePart(box),
  }, makeElement("h3", {}, translate(BOXES[box].name)), children, makeElement("code", {}, BOXES[box].code))));
  const hidden = row.items.length - shown.length;
  byId("all-keys").hidden = hidden === 0;
  byId("all-keys").textContent = say`Show all ${row.items.length} pieces`;
  byId("inside-note").textContent = typeof view.head === "number" ? "" : say`The heads above are combined; this is ${placeOfHead(name.kind, name.layer, name.head)}, which looks most sharply.`;
  choosePart(inside.box);
  if (inside.shownQuery !== query) {
    Object.assign(inside, { shownQuery: query, key: null });
  }
  const heaviest = shown.reduce((a, b) => (b.weight > a.weight ? b : a));
  lightKey(shown.some(({ i }) => i === inside.key) ? inside.key : heaviest.i);
}

function makeFormula() {
  return ["Attention(Q, K, V) = ", ...FORMULA.map(([text, boxes, tag, index]) =>
    makeElement("span", { "data-boxes": boxes.join(" ") }, text, tag ? makeElement(tag, {}, index) : []))];
}

// Set the part of the formula that a box computes in bold.
function choosePart(box) {
  inside.box = box;
  for (const part of byId("formula").querySelectorAll("[data-boxes]")) {
    part.classList.toggle("now", part.dataset.boxes.split(" ").includes(String(box)));
  }
  for (const item of byId("chain").children) {
    item.classList.toggle("now", item.dataset.box === String(box));
  }
}

// Light the row of a key in all boxes, and show its product with the query, cell by cell.
function lightKey(i) {
  inside.key = i;
  for (const item of byId("chain").querySelectorAll("[data-key]")) {
    item.classList.toggle("lit", item.dataset.key === String(i));
  }
  byId("chain").querySelectorAll(".product").forEach((item) => { item.hidden = item.dataset.of !== String(i); });
}

// A vector as cells: orange is positive, blue is negative. `largest` has the full colour.
// `isHidden`: from screen readers, in a button that has its own text.
function makeCells(vector, largest, title, isHidden = false) {
  const name = isHidden ? { "aria-hidden": "true" } : { role: "img", "aria-label": title };
  const canvas = makeElement("canvas", { class: "strip", title, ...name });
  canvas.width = vector.length;
  canvas.height = 1;
  const pen = canvas.getContext("2d");
  vector.forEach((value, i) => {
    pen.fillStyle = toCss(signedColour(value / largest));
    pen.fillRect(i, 0, 1, 1);
  });
  return canvas;
}

function largestOf(...vectors) {
  return Math.max(1e-9, ...vectors.map((vector) => vector.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0)));
}

// A number with two decimals, whose title has four.
function makeNumber(number, unit = "") {
  return makeElement("span", { class: "number", title: formatNumber(number, 4) + unit }, formatNumber(number) + unit);
}

function makeBar(share, colour) {
  const bar = makeElement("span", { class: "meter" }, makeElement("span", {}));
  bar.firstChild.style.width = `${Math.min(Math.abs(share), 1) * 100}%`;
  bar.firstChild.style.background = toCss(colour);
  return bar;
}

// The rows of a box, one for each key.
function makeRows(shown, content) {
  const side = KINDS[view.kind].columns;
  return makeElement("ul", { class: "keys" }, shown.map((item) => makeElement("li", {
    class: item.reason ? "masked" : null, "data-key": item.i, onmouseenter: () => lightKey(item.i), title: item.reason ? say`${item.label}: masked, ${item.reason}` : null,
  }, makeElement("span", { class: "label", dir: "auto", lang: languageOf(side) }, item.label), content(item))));
}

function makeQueryBox({ q, width }, query, labels) {
  const side = KINDS[view.kind].rows;
  const largest = largestOf(q);
  return [
    makeElement("p", {}, sayWith`of ${makeElement("b", { dir: "auto", lang: languageOf(side) }, quote(labels[query]))}: ${width} numbers, from its state times W${makeElement("sup", {}, "Q")}.`),
    makeCells(q, largest, describeVector(q)),
    makeScale(largest),
    makeElement("p", {}, say`Which piece looks?`),
    makeToolbar(say`Queries`, labels.map((label, i) => makeElement("button", {
      type: "button", "aria-pressed": String(i === query), "data-query": i, dir: "auto", lang: languageOf(side), onclick: () => chooseQuery(i),
    }, label)), "queries"),
  ];
}

// Highlight the word of a piece, and show the query of the piece.
function chooseQuery(piece) {
  inside.piece = piece;
  const spans = page.inspection.spans(KINDS[view.kind].rows, view.byWords);
  const highlight = { row: spans.findIndex(([start, end]) => piece >= start && piece < end) };
  if (view.step > 0) {
    chooseRow(highlight);
  }
  setHighlight(highlight);
  showInside();
}

// Buttons that are one tab stop.
function makeToolbar(name, children, className = null) {
  const toolbar = makeElement("div", { role: "toolbar", "aria-label": name, class: className, "data-roving": "" }, children);
  const items = itemsOf(toolbar);
  setTabStop(items, items.find((item) => item.ariaPressed === "true") ?? items[0]);
  moveByArrows(toolbar);
  return toolbar;
}

function describeVector(vector) {
  return say`${vector.length} numbers from ${formatNumber(Math.min(...vector), 4)} to ${formatNumber(Math.max(...vector), 4)}`;
}

function makeScale(largest) {
  const scale = [-1, -0.5, 0, 0.5, 1];
  const cells = makeCells(Float32Array.from(scale), 1, say`the scale of the colours`);
  return makeElement("p", { class: "ends" }, formatNumber(-largest), cells, formatNumber(largest));
}

function makeKeysBox({ q, items, width }, shown) {
  const side = KINDS[view.kind].columns;
  const largest = largestOf(...items.map(({ k }) => k));
  const makeKey = (item) => makeElement("button", {
    type: "button", "data-of-key": item.i, "aria-label": `${item.label}: q · k = ${formatNumber(item.product, 4)}`,
    onmouseenter: () => lightKey(item.i), onfocus: () => lightKey(item.i), onclick: () => lightKey(item.i),
  }, makeElement("span", { class: "label", dir: "auto", lang: languageOf(side) }, item.label), makeCells(item.k, largest, describeVector(item.k), true));
  const keys = shown.map((item) => makeElement("li", { "data-key": item.i, class: item.reason ? "masked" : null }, makeKey(item)));
  const list = makeToolbar(say`Keys`, [makeElement("ul", { class: "keys" }, keys)]);
  const allProducts = largestOf(...items.map(({ products }) => products));
  const details = shown.map((item) => makeElement("div", { class: "product", "data-of": item.i, hidden: true },
    makeElement("span", {}, "q"), makeCells(q, largestOf(q), say`the query`),
    makeElement("span", {}, "k"), makeCells(item.k, largest, say`the key`),
    makeElement("span", {}, "q × k"), makeCells(item.products, allProducts, describeVector(item.products)),
    makeElement("p", {}, sayWith`sum ${makeNumber(item.product)} / √${width} = ${makeNumber(item.logit)}; largest: ${describeLargest(item.products)}`)));
  return [list, ...details];
}

// The cells that contribute most to a product.
function describeLargest(products) {
  const cells = [...products].map((value, i) => ({ value, i })).sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 2);
  return cells.map(({ value, i }) => say`cell ${i + 1}, ${formatNumber(value)}`).join("; ");
}

function makeLogitsBox({ items, width }, shown) {
  const largest = largestOf(items.filter(({ reason }) => !reason).map(({ logit }) => logit));
  const rows = makeRows(shown, ({ reason, product, logit }) => (reason
    ? makeElement("span", { class: "reason" }, say`masked`)
    : [makeElement("span", { class: "number", title: `${formatNumber(product, 4)} / √${width} = ${formatNumber(logit, 4)}` }, formatNumber(logit)), makeBar(logit / largest, signedColour(Math.sign(logit)))]));
  const reasons = [...new Set(shown.map(({ reason }) => reason).filter(Boolean))];
  return [rows, ...reasons.map((reason) => makeElement("p", {}, say`Hatched: ${reason}.`))];
}

function makeSoftmaxBox({ items }, shown) {
  const slider = makeElement("input", { type: "range", min: 0.5, max: 2, step: 0.1, value: inside.temperature, id: "temperature", oninput: () => draw(Number(slider.value)) });
  const [rows, name, note] = ["div", "span", "p"].map((tag) => makeElement(tag, {}));
  const draw = (temperature) => {
    const weights = computeSoftmax(items, temperature);
    const text = formatNumber(temperature, 1);
    rows.replaceChildren(makeRows(shown, ({ i, reason }) => (reason
      ? makeElement("span", { class: "reason" }, "0")
      : [makeElement("span", { class: "number", title: formatNumber(weights[i], 4) }, formatProbability(weights[i])), makeBar(weights[i], weightColour(Math.max(weights[i], 0.15)))])));
    name.textContent = `${say`Temperature ${text}`} `;
    note.textContent = temperature === 1 ? say`These are the numbers of the heat map.` : say`Only drawn: softmax(x / ${text}). The model uses 1.`;
    inside.temperature = temperature;
  };
  draw(inside.temperature);
  return [rows, makeElement("label", { class: "temperature" }, name, slider), note];
}

function makeValuesBox({ items, output }, shown, alternatives) {
  const largest = largestOf(...items.map(({ v }) => v));
  return [
    makeRows(shown, ({ reason, weight, v }) => (reason
      ? makeElement("span", { class: "reason" }, say`nothing`)
      : [makeElement("span", { class: "number", title: `${formatNumber(100 * weight, 4)} %` }, `${formatProbability(100 * weight, 0)} %`), makeCells(v.map((value) => value * weight), largest, describeVector(v))])),
    makeElement("p", {}, say`The sum is the output of the head:`),
    makeCells(output, largestOf(output), describeVector(output)),
    ...makeShares(alternatives),
  ];
}

// The share of the head in the logits of the likeliest pieces.
function makeShares(alternatives) {
  if (!alternatives) {
    return [makeElement("p", {}, say`A head of the encoder acts on the next word only through the decoder: “Switch off” measures how much.`)];
  }
  const largest = largestOf(alternatives.map(([, , , share]) => share));
  return [
    makeElement("p", {}, say`Its share of the logits of the next word:`),
    makeElement("ul", { class: "keys shares" }, alternatives.map(([id, piece, logit, share]) => makeElement("li", { title: say`${formatNumber(share, 4)} of ${formatNumber(logit, 4)}`, "data-share": id },
      makeElement("span", { class: "label", dir: "auto", lang: languageOf("target") }, shownPiece(piece)), makeElement("span", { class: "number" }, (share > 0 ? "+" : "") + formatNumber(share)), makeBar(share / largest, signedColour(Math.sign(share)))))),
  ];
}

// Follow the word that is highlighted.
function showInsideRow() {
  if (view.tab === "inside" && !byId("why").hidden && page.highlight?.row !== undefined) {
    showInside();
  }
}

function addInsideListeners() {
  byId("all-keys").addEventListener("click", () => {
    inside.isComplete = true;
    showInside();
  });
}
