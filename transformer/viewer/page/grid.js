// All layers and heads of the three kinds as thumbnails.

// One cell, one pixel: the browser makes it larger.
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
      const place = matrix.isDifference ? 127 + Math.round(value * 127) : Math.round(Math.min(value, 1) * 254);
      pixels[i] = value === 0 && matrix.hidden(row, column) ? 0 : colours[place];
    }
  }
  pen.putImageData(image, 0, 0);
}

// The 255 colours as pixels of a theme.
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

// The tables of thumbnails. `matrixOf` is a function of kind, layer and head.
function makeGrid(sight, view, width, matrixOf, choose) {
  const side = Math.max(34, Math.min(84, Math.floor((width - 60) / sight.heads) - 12));
  return Object.entries(KINDS).map(([kind, { name }]) => {
    const rows = [];
    for (let layer = 0; layer < sight.layersOf(kind); layer += 1) {
      const cells = [make("th", { scope: "row" }, `layer ${layer + 1}`)];
      for (let head = 0; head < sight.heads; head += 1) {
        cells.push(make("td", {}, makeThumbnail(sight, view, { kind, layer, head, side }, matrixOf, choose)));
      }
      rows.push(make("tr", {}, cells));
    }
    return make("table", {}, make("caption", {}, name), rows);
  });
}

function makeThumbnail(sight, view, { kind, layer, head, side }, matrixOf, choose) {
  const canvas = make("canvas", {});
  canvas.style.width = `${side}px`;
  canvas.style.height = `${side}px`;
  drawThumbnail(canvas, matrixOf(kind, layer, head));
  const role = sight.role(kind, layer, head);
  const isChosen = view.kind === kind && view.layer === layer && (view.head === head || typeof view.head !== "number");
  const text = `${KINDS[kind].name}, layer ${layer + 1}, head ${head + 1}: ${role.text}, ${fixed(role.share)}`;
  return make("button", {
    type: "button", title: text, "aria-label": text, "aria-pressed": String(isChosen),
    "data-head": `${kind}-${layer}-${head}`, onclick: () => choose({ kind, layer, head }),
  }, canvas);
}
