// Thumbnails of all layers and heads of the three kinds of attention.

// Each cell is one pixel; the browser scales the picture up.
function drawThumbnail(canvas, matrix) {
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(matrix.columns, matrix.rows);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = thumbnailColours(Boolean(matrix.isDifference));
  for (let row = 0, i = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1, i += 1) {
      const value = matrix.values[i];
      const index = matrix.isDifference ? 127 + Math.round(value * 127) : Math.round(Math.min(value, 1) * 254);
      pixels[i] = value === 0 && matrix.maskReason(row, column) ? 0 : colours[index];
    }
  }
  pen.putImageData(image, 0, 0);
}

// The 255 colours of a theme, as pixels.
const thumbnailPixels = new Map();

function thumbnailColours(isDifference) {
  const key = `${isDark()} ${isDifference}`;
  if (!thumbnailPixels.has(key)) {
    thumbnailPixels.set(key, Uint32Array.from({ length: 255 }, (_, i) => {
      const [red, green, blue] = isDifference ? differenceColour((i - 127) / 127) : weightColour(i / 254);
      return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }));
  }
  return thumbnailPixels.get(key);
}

// Where a head is: “Cross, layer 2, head 3”.
function placeOfHead(kind, layer, head) {
  return say`${translate(KINDS[kind].name)}, layer ${layer + 1}, head ${head + 1}`;
}

// The tables of thumbnails, which fit into a width and a height if they do not become too
// small. `matrixOf` is a function of kind, layer and head; `isCompared`: some of its matrices
// are differences of two models.
function makeGrid(inspection, view, [width, height], { matrixOf, isCompared }, choose) {
  const kinds = Object.keys(KINDS);
  const numRows = kinds.reduce((sum, kind) => sum + inspection.layersOf(kind), 0);
  const fitting = Math.min((width - 60) / inspection.heads - 12, (height - 30 * kinds.length) / numRows - 11);
  const side = Math.max(34, Math.min(84, Math.floor(fitting)));
  return Object.entries(KINDS).map(([kind, { name }]) => {
    const rows = [];
    for (let layer = 0; layer < inspection.layersOf(kind); layer += 1) {
      const cells = [makeElement("th", { scope: "row" }, say`layer ${layer + 1}`)];
      for (let head = 0; head < inspection.heads; head += 1) {
        cells.push(makeElement("td", {}, makeThumbnail(inspection, view, { kind, layer, head, side }, matrixOf, choose)));
      }
      rows.push(makeElement("tr", {}, cells));
    }
    const isDifference = matrixOf(kind, 0, 0).isDifference;
    const remark = isCompared ? ` – ${isDifference ? say`difference of the two models` : say`the first model`}` : "";
    return makeElement("table", {}, makeElement("caption", {}, translate(name) + remark), rows);
  });
}

function makeThumbnail(inspection, view, { kind, layer, head, side }, matrixOf, choose) {
  const canvas = makeElement("canvas", {});
  canvas.style.width = `${side}px`;
  canvas.style.height = `${side}px`;
  drawThumbnail(canvas, matrixOf(kind, layer, head));
  const role = inspection.role(kind, layer, head);
  const isChosen = view.kind === kind && view.layer === layer && (view.head === head || typeof view.head !== "number");
  const text = `${placeOfHead(kind, layer, head)}: ${translate(role.text)}, ${formatNumber(role.share)}`;
  return makeElement("button", {
    type: "button", title: text, "aria-label": text, "aria-pressed": String(isChosen),
    "data-head": `${kind}-${layer}-${head}`, onclick: () => choose({ kind, layer, head }),
  }, canvas);
}

// Scroll the grid until the chosen heads are visible.
function scrollToChosen(grid) {
  const chosen = grid.querySelector("[aria-pressed='true']");
  const [frame, box] = [grid, chosen].map((element) => element.getBoundingClientRect());
  if (box.top < frame.top || box.bottom > frame.bottom) {
    grid.scrollTop += box.top + box.height / 2 - frame.top - frame.height / 2;
  }
}
