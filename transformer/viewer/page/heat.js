// The large heat map: words on both sides, hatched where there can be no attention.

const HEAT = { font: "13px system-ui, sans-serif", least: 15, most: 42, longest: 22 };

function clipped(text, most = HEAT.longest) {
  const characters = [...text];
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : text;
}

// Where things stand in the picture of a matrix.
function heatLayout(matrix, width) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = HEAT.font;
  const longest = (labels) => Math.max(...labels.map((label) => pen.measureText(clipped(label)).width));
  const left = longest(matrix.rowLabels) + 12;
  const top = longest(matrix.columnLabels) * 0.72 + 24;
  const overhang = longest(matrix.columnLabels.slice(-1)) * 0.72 + 8;
  const fitting = Math.floor((width - left - overhang) / matrix.columns);
  const cell = Math.min(HEAT.most, Math.max(HEAT.least, fitting));
  return {
    left, top, cell,
    width: left + cell * matrix.columns + overhang,
    height: top + cell * matrix.rows + 8,
  };
}

function cellColour(matrix, value) {
  return matrix.isDifference ? differenceColour(value) : weightColour(value);
}

// What the colours of the weights mean.
function makeScale() {
  return ["Weight:", ...[0, 0.05, 0.2, 0.5, 1].flatMap((weight) => {
    const sample = make("span", {});
    sample.style.background = css(weightColour(weight));
    return [sample, String(weight)];
  })];
}

function drawHeat(canvas, matrix, layout, lit) {
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST_AREA / (layout.width * layout.height)));
  canvas.width = Math.ceil(layout.width * ratio);
  canvas.height = Math.ceil(layout.height * ratio);
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = HEAT.font;
  drawCells(pen, matrix, layout);
  drawLabels(pen, matrix, layout, lit);
  if (lit) {
    drawLit(pen, matrix, layout, lit);
  }
}

function drawCells(pen, matrix, layout) {
  const { left, top, cell } = layout;
  const hatch = hatching(pen);
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const isHidden = matrix.hidden(row, column) !== "";
      const value = matrix.values[row * matrix.columns + column];
      pen.fillStyle = isHidden ? hatch : css(cellColour(matrix, value));
      pen.fillRect(left + column * cell, top + row * cell, cell - 1, cell - 1);
    }
  }
}

function hatching(pen) {
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

function drawLabels(pen, matrix, layout, lit) {
  const { left, top, cell } = layout;
  const ink = themeColour("--ink");
  const warm = themeColour("--warm");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  matrix.rowLabels.forEach((label, row) => {
    pen.fillStyle = lit && lit.row === row ? warm : ink;
    pen.fillText(clipped(label), left - 7, top + (row + 0.5) * cell);
  });
  pen.textAlign = "left";
  matrix.columnLabels.forEach((label, column) => {
    pen.save();
    pen.translate(left + (column + 0.5) * cell, top - 8);
    pen.rotate(-Math.PI / 4);
    pen.fillStyle = lit && lit.column === column ? warm : ink;
    pen.fillText(clipped(label), 0, 0);
    pen.restore();
  });
}

function drawLit(pen, matrix, layout, lit) {
  const { left, top, cell } = layout;
  pen.strokeStyle = themeColour("--warm");
  pen.lineWidth = 2;
  const row = lit.row ?? 0;
  const column = lit.column ?? 0;
  const rows = lit.row === undefined ? matrix.rows : 1;
  const columns = lit.column === undefined ? matrix.columns : 1;
  pen.strokeRect(left + column * cell - 1, top + row * cell - 1, columns * cell + 1, rows * cell + 1);
}

// The cell, row or column under a place in the picture; null outside of it.
function heatPlace(matrix, layout, x, y) {
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

// A cell in words.
function cellInWords(matrix, { row, column }) {
  if (row === undefined || column === undefined) {
    return "";
  }
  const from = matrix.rowLabels[row];
  const to = matrix.columnLabels[column];
  const why = matrix.hidden(row, column);
  if (why) {
    return `“${from}” cannot look at “${to}”: ${why}.`;
  }
  const value = matrix.values[row * matrix.columns + column];
  if (matrix.isDifference) {
    return `“${from}” looks at “${to}” ${fixed(Math.abs(value), 3)} ${value < 0 ? "less" : "more"} in the other model.`;
  }
  return `“${from}” looks at “${to}” with weight ${fixed(value, 3)}.`;
}

// The same numbers for those who do not see the picture.
function heatTable(matrix) {
  const head = make("tr", {}, make("td", {}), matrix.columnLabels.map((label) => make("th", { scope: "col", dir: "auto" }, label)));
  const rows = matrix.rowLabels.map((label, row) =>
    make("tr", {}, make("th", { scope: "row", dir: "auto" }, label), matrix.columnLabels.map((_, column) =>
      make("td", {}, matrix.hidden(row, column) ? "–" : fixed(matrix.values[row * matrix.columns + column])))));
  return make("table", {}, make("caption", {}, "Rows look at columns."), make("thead", {}, head), make("tbody", {}, rows));
}

// The words of both sides; a word that is lit shows where it looks, or who looks at it.
function heatChips(matrix, lit, light) {
  const shade = (side, i) => {
    if (!lit || lit[side === "row" ? "column" : "row"] === undefined) {
      return null;
    }
    const place = side === "row" ? i * matrix.columns + lit.column : lit.row * matrix.columns + i;
    return cellColour(matrix, matrix.values[place]);
  };
  const line = (side, name, labels) => make("div", { class: "line" }, make("span", {}, name),
    labels.map((label, i) => {
      const isPinned = lit && lit[side] === i;
      const chip = make("button", {
        type: "button", class: isPinned ? "pinned" : null, "aria-pressed": String(Boolean(isPinned)), "data-chip": `${side}-${i}`, dir: "auto",
        onmouseenter: () => light({ [side]: i }), onfocus: () => light({ [side]: i }), onclick: () => light({ [side]: i }),
      }, label);
      const colour = shade(side, i);
      if (colour && !(lit.row !== undefined && lit.column !== undefined)) {
        chip.style.background = css(colour);
        chip.style.color = inkOn(colour);
      }
      return chip;
    }));
  return [line("row", "looking", matrix.rowLabels), line("column", "looked at", matrix.columnLabels)];
}
