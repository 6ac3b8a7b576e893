// The large heat map, with words on both sides; masked cells are hatched.

const HEAT = { font: "13px system-ui, sans-serif", minCell: 15, maxCell: 42, maxLabel: 22 };

function clipText(text, length = HEAT.maxLabel) {
  const characters = [...text];
  return characters.length > length ? characters.slice(0, length - 1).join("") + "…" : text;
}

// The size of a heat map, and where its parts are.
function heatLayout(matrix, width) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = HEAT.font;
  const longest = (labels) => Math.max(...labels.map((label) => pen.measureText(clipText(label)).width));
  const left = longest(matrix.rowLabels) + 12;
  const top = longest(matrix.columnLabels) * 0.72 + 24;
  const overhang = longest(matrix.columnLabels.slice(-1)) * 0.72 + 8;
  const fitting = Math.floor((width - left - overhang) / matrix.columns);
  const cell = Math.min(HEAT.maxCell, Math.max(HEAT.minCell, fitting));
  return {
    left, top, cell,
    width: left + cell * matrix.columns + overhang,
    height: top + cell * matrix.rows + 8,
  };
}

function cellColour(matrix, value) {
  return matrix.isDifference ? differenceColour(value) : weightColour(value);
}

// The legend of the colours: of weights, or of the differences of two models.
function makeLegend(isDifference) {
  const [name, values] = isDifference ? [say`Other model − this model:`, [-1, -0.2, 0, 0.2, 1]] : [say`Weight:`, [0, 0.05, 0.2, 0.5, 1]];
  return [name, ...values.flatMap((value) => {
    const sample = makeElement("span", {});
    sample.style.background = toCss(isDifference ? differenceColour(value) : weightColour(value));
    return [sample, value.toLocaleString(reader.language).replace("-", "−")];
  })];
}

function drawHeat(canvas, matrix, layout, highlight) {
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(MAX_AREA / (layout.width * layout.height)));
  canvas.width = Math.ceil(layout.width * ratio);
  canvas.height = Math.ceil(layout.height * ratio);
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = HEAT.font;
  drawCells(pen, matrix, layout);
  drawLabels(pen, matrix, layout, highlight);
  if (highlight) {
    drawHighlight(pen, matrix, layout, highlight);
  }
}

function drawCells(pen, matrix, layout) {
  const { left, top, cell } = layout;
  const hatch = makeHatching(pen);
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const isMasked = matrix.maskReason(row, column) !== "";
      const value = matrix.values[row * matrix.columns + column];
      pen.fillStyle = isMasked ? hatch : toCss(cellColour(matrix, value));
      pen.fillRect(left + column * cell, top + row * cell, cell - 1, cell - 1);
    }
  }
}

function makeHatching(pen) {
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const brush = tile.getContext("2d");
  brush.strokeStyle = themeColour("--line");
  brush.lineWidth = 1.2;
  brush.beginPath();
  brush.moveTo(-1, 7);
  brush.lineTo(7, -1);
  brush.stroke();
  return pen.createPattern(tile, "repeat");
}

function drawLabels(pen, matrix, layout, highlight) {
  const { left, top, cell } = layout;
  const ink = themeColour("--ink");
  const warm = themeColour("--warm");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  matrix.rowLabels.forEach((label, row) => {
    pen.fillStyle = highlight && highlight.row === row ? warm : ink;
    pen.fillText(clipText(label), left - 7, top + (row + 0.5) * cell);
  });
  pen.textAlign = "left";
  matrix.columnLabels.forEach((label, column) => {
    pen.save();
    pen.translate(left + (column + 0.5) * cell, top - 8);
    pen.rotate(-Math.PI / 4);
    pen.fillStyle = highlight && highlight.column === column ? warm : ink;
    pen.fillText(clipText(label), 0, 0);
    pen.restore();
  });
}

function drawHighlight(pen, matrix, layout, highlight) {
  const { left, top, cell } = layout;
  pen.strokeStyle = themeColour("--warm");
  pen.lineWidth = 2;
  const row = highlight.row ?? 0;
  const column = highlight.column ?? 0;
  const rows = highlight.row === undefined ? matrix.rows : 1;
  const columns = highlight.column === undefined ? matrix.columns : 1;
  pen.strokeRect(left + column * cell - 1, top + row * cell - 1, columns * cell + 1, rows * cell + 1);
}

// The cell, row or column at a point of the heat map; null outside of it.
function findCell(matrix, layout, x, y) {
  const column = Math.floor((x - layout.left) / layout.cell);
  const row = Math.floor((y - layout.top) / layout.cell);
  const inRows = row >= 0 && row < matrix.rows;
  const inColumns = column >= 0 && column < matrix.columns;
  if (inRows && inColumns) {
    return { row, column };
  }
  if (inRows && column < 0) {
    return { row };
  }
  return inColumns && row < 0 ? { column } : null;
}

const MAX_NAMED = 3; // words that a description of a row or column names
const MIN_NAMED = 0.05; // the weight, or the difference, of a named word

// Describe a row or column in words: the largest of its weights, or of its differences.
function describeLine(matrix, { row, column }) {
  const isRow = row !== undefined;
  const labels = isRow ? matrix.columnLabels : matrix.rowLabels;
  const largest = labels
    .map((label, i) => ({ label, value: matrix.values[isRow ? row * matrix.columns + i : i * matrix.columns + column] }))
    .filter(({ value }) => Math.abs(value) >= MIN_NAMED)
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
    .slice(0, MAX_NAMED);
  const difference = (value) => (matrix.isDifference ? ` ${value < 0 ? say`less` : say`more`}` : "");
  const names = largest.map(({ label, value }) => `${quote(label)} ${formatNumber(Math.abs(value))}${difference(value)}`).join(", ") || say`nothing much`;
  const subject = quote(isRow ? matrix.rowLabels[row] : matrix.columnLabels[column]);
  if (matrix.isDifference && largest.length === 0) {
    return say`${subject}: both models agree.`;
  }
  const sentence = isRow ? say`${subject} attends to ${names}.` : say`${subject} is attended to by ${names}.`;
  return matrix.isDifference ? say`In the other model: ${sentence}` : sentence;
}

// Describe a cell, row or column in words.
function describeCell(matrix, { row, column }) {
  if (row === undefined || column === undefined) {
    return describeLine(matrix, { row, column });
  }
  const from = quote(matrix.rowLabels[row]);
  const to = quote(matrix.columnLabels[column]);
  const reason = matrix.maskReason(row, column);
  if (reason) {
    return say`${from} cannot attend to ${to}: ${reason}.`;
  }
  const value = matrix.values[row * matrix.columns + column];
  if (matrix.isDifference) {
    const difference = formatNumber(Math.abs(value), 3);
    return value < 0 ? say`${from} attends to ${to} ${difference} less in the other model.` : say`${from} attends to ${to} ${difference} more in the other model.`;
  }
  return say`${from} attends to ${to} with weight ${formatNumber(value, 3)}.`;
}

// The same numbers as a table, for screen readers.
function makeTable(matrix) {
  const head = makeElement("tr", {}, makeElement("td", {}), matrix.columnLabels.map((label) => makeElement("th", { scope: "col", dir: "auto", lang: languageOf(KINDS[matrix.kind].columns) }, label)));
  const rows = matrix.rowLabels.map((label, row) =>
    makeElement("tr", {}, makeElement("th", { scope: "row", dir: "auto", lang: languageOf(KINDS[matrix.kind].rows) }, label), matrix.columnLabels.map((_, column) =>
      makeElement("td", {}, matrix.maskReason(row, column) ? "–" : formatNumber(matrix.values[row * matrix.columns + column])))));
  return makeElement("table", {}, makeElement("caption", {}, say`Rows attend to columns.`), makeElement("thead", {}, head), makeElement("tbody", {}, rows));
}

// The words of both sides as buttons. Highlighting one shades the words that it attends to,
// or that attend to it.
function makeChips(matrix, highlight, setHighlight, choose) {
  const shade = (side, i) => {
    if (!highlight || highlight[side === "row" ? "column" : "row"] === undefined) {
      return null;
    }
    const place = side === "row" ? i * matrix.columns + highlight.column : highlight.row * matrix.columns + i;
    return cellColour(matrix, matrix.values[place]);
  };
  const isUnknown = (side, i) => KINDS[matrix.kind][`${side}s`] === "source" && matrix.isUnknown(i);
  const line = (side, name, labels) => makeElement("div", { class: "line" }, makeElement("span", {}, name),
    labels.map((label, i) => {
      const isPinned = highlight && highlight[side] === i;
      const chip = makeElement("button", {
        type: "button", class: [isPinned && "pinned", isUnknown(side, i) && "unknown"].filter(Boolean).join(" ") || null, title: isUnknown(side, i) ? say`not in the vocabulary` : null, "aria-pressed": String(Boolean(isPinned)), "data-chip": `${side}-${i}`, dir: "auto", lang: languageOf(KINDS[matrix.kind][`${side}s`]),
        onmouseenter: () => setHighlight({ [side]: i }), onfocus: () => setHighlight({ [side]: i }), onclick: () => { setHighlight({ [side]: i }); choose({ [side]: i }); },
      }, label);
      const colour = shade(side, i);
      if (colour && !(highlight.row !== undefined && highlight.column !== undefined)) {
        chip.style.background = toCss(colour);
        chip.style.color = textColourOn(colour);
      }
      return chip;
    }));
  return [line("row", say`from`, matrix.rowLabels), line("column", say`to`, matrix.columnLabels)];
}
