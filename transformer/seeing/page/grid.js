// All layers and heads of the three kinds as thumbnails.

// One cell, one pixel: the browser makes it larger.
function drawThumbnail(canvas, matrix) {
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(matrix.columns, matrix.rows);
  const colours = thumbnailColours(matrix.isDifference);
  for (let i = 0; i < matrix.values.length; i += 1) {
    const value = matrix.isDifference ? (matrix.values[i] + 1) / 2 : matrix.values[i];
    image.data.set(colours[Math.round(Math.min(Math.max(value, 0), 1) * 255)], i * 4);
  }
  pen.putImageData(image, 0, 0);
}

function thumbnailColours(isDifference) {
  const colours = [];
  for (let i = 0; i < 256; i += 1) {
    colours.push([...(isDifference ? differenceColour((i / 255) * 2 - 1) : weightColour(Math.sqrt(i / 255))), 255]);
  }
  return colours;
}

// The tables of thumbnails. `matrixOf` is a function of kind, layer and head.
function makeGrid(sight, view, matrixOf, choose) {
  return Object.entries(KINDS).map(([kind, { name }]) => {
    const rows = [];
    for (let layer = 0; layer < sight.layers; layer += 1) {
      const cells = [make("th", { scope: "row" }, `layer ${layer + 1}`)];
      for (let head = 0; head < sight.heads; head += 1) {
        cells.push(make("td", {}, makeThumbnail(sight, view, { kind, layer, head }, matrixOf, choose)));
      }
      rows.push(make("tr", {}, cells));
    }
    return make("table", {}, make("caption", {}, name), rows);
  });
}

function makeThumbnail(sight, view, { kind, layer, head }, matrixOf, choose) {
  const canvas = make("canvas", {});
  drawThumbnail(canvas, matrixOf(kind, layer, head));
  const role = sight.role(kind, layer, head);
  const isChosen = view.kind === kind && view.layer === layer && (view.head === head || typeof view.head !== "number");
  const text = `${KINDS[kind].name}, layer ${layer + 1}, head ${head + 1}: ${role.text}, ${fixed(role.share)}`;
  return make("button", {
    type: "button", title: text, "aria-label": text, "aria-pressed": String(isChosen),
    "data-head": `${kind}-${layer}-${head}`, onclick: () => choose({ kind, layer, head }),
  }, canvas);
}
