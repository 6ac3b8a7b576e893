// Save pictures as SVG, or as PNG rendered from the SVG.

function heatSvg(matrix) {
  const layout = heatLayout(matrix, 900);
  const { left, top, cell, width, height } = layout;
  const picture = makeSvg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 13 },
    makeSvg("rect", { width, height, fill: themeColour("--panel") }));
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const isMasked = matrix.maskReason(row, column) !== "";
      const fill = isMasked ? themeColour("--line") : toCss(cellColour(matrix, matrix.values[row * matrix.columns + column]));
      picture.append(makeSvg("rect", { x: left + column * cell, y: top + row * cell, width: cell - 1, height: cell - 1, fill, "fill-opacity": isMasked ? 0.4 : 1 }));
    }
  }
  const ink = themeColour("--ink");
  matrix.rowLabels.forEach((label, row) => picture.append(
    makeSvg("text", { x: left - 7, y: top + (row + 0.5) * cell + 4, "text-anchor": "end", fill: ink }, clipText(label))));
  matrix.columnLabels.forEach((label, column) => {
    const x = left + (column + 0.5) * cell;
    picture.append(makeSvg("text", { x, y: top - 8, transform: `rotate(-45 ${x} ${top - 8})`, fill: ink }, clipText(label)));
  });
  return picture;
}

function gridSvg(tables) {
  const side = 60;
  const parts = [];
  let y = 10;
  let width = 0;
  for (const table of tables) {
    const text = (words, x, size) => makeSvg("text", { x, y: y + 12, "font-size": size, fill: themeColour("--ink") }, words);
    parts.push(text(table.caption.textContent, 10, 14));
    y += 22;
    for (const row of table.rows) {
      parts.push(text(row.cells[0].textContent, 10, 11));
      [...row.querySelectorAll("canvas")].forEach((canvas, i) => {
        const x = 66 + i * (side + 5);
        parts.push(makeSvg("image", { x, y, width: side, height: side, preserveAspectRatio: "none", style: null, "image-rendering": "pixelated", href: canvas.toDataURL() }));
        parts.push(makeSvg("rect", { x, y, width: side, height: side, fill: "none", stroke: themeColour("--line") }));
        width = Math.max(width, x + side + 10);
      });
      y += side + 5;
    }
    y += 10;
  }
  return makeSvg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height: y, viewBox: `0 0 ${width} ${y}`, "font-family": "system-ui, sans-serif" },
    makeSvg("rect", { width, height: y, fill: themeColour("--panel") }), parts);
}

function treeSvg(tree) {
  const picture = tree.cloneNode(true);
  picture.prepend(makeSvg("rect", { width: tree.getAttribute("width"), height: tree.getAttribute("height"), fill: themeColour("--panel") }));
  return picture;
}

function toSvgText(picture) {
  return new XMLSerializer().serializeToString(picture);
}

// What browsers draw reliably: pixels of a side, and of the area.
const MAX_PIXELS = 16384;
const MAX_AREA = 2 ** 24;

// A PNG at twice the size, for print, or less for a large picture.
async function renderPng(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(toSvgText(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const size = ["width", "height"].map((side) => Number(picture.getAttribute(side)));
  const factor = Math.min(2, MAX_PIXELS / Math.max(...size), Math.sqrt(MAX_AREA / (size[0] * size[1])));
  [canvas.width, canvas.height] = size.map((side) => Math.floor(factor * side));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = makeElement("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

async function exportPicture(picture, name, format) {
  try {
    const blob = format === "png" ? await renderPng(picture) : new Blob([toSvgText(picture)], { type: "image/svg+xml" });
    saveFile(blob, `${name}.${format}`);
  } catch {
    showStatus(say`The picture is too large for PNG; save it as SVG.`, true);
  }
}
