// What only a sheet of paper shows: where it comes from, and the steps of the translation.

const MAX_LOOKS = 2; // source words named in a step
const MAX_RUNNERS_UP = 3;

function showPrinted() {
  const model = page.models[page.inspection?.model ?? view.model]?.name;
  const date = new Date().toLocaleDateString(reader.language, { dateStyle: "long" });
  const missing = page.inspection ? "" : say`Printed before the translation was there.`;
  const facts = [document.title, model, date, missing].filter(Boolean).join(" · ");
  // The whole address would fill lines, so it is a link, which a PDF keeps; that of a file leads
  // nobody else to it.
  const address = isOnline() ? [" · ", makeElement("a", { href: location.href }, location.origin + location.pathname)] : "";
  replaceChildren(byId("printed"), facts, address);
  byId("stage").classList.toggle("stopped", view.step !== null);
  byId("lines").style.width = page.isPrinted ? `${Math.max(byId("above").scrollWidth, byId("below").scrollWidth)}px` : ""; // lines that scroll
  if (page.inspection) {
    showRibbons(makeScene(page, view));
  }
  byId("stage").style.setProperty("--drawn", byId("lines").clientWidth);
  replaceChildren(byId("strip"), page.inspection ? makeStrip(page.inspection) : []);
}

// A table with a line for each word of the translation: what the film shows step by step.
function makeStrip(inspection) {
  const isCross = view.kind === "cross";
  const layer = isCross ? view.layer : inspection.layersOf("cross") - 1;
  const { columns, columnLabels, values } = inspection.matrix("cross", layer, isCross ? view.head : "mean", true);
  const probabilities = inspection.probabilities(true);
  const name = (word, number) => `${word} ${formatProbability(number)}`;
  const head = [say`Step`, say`Word`, say`Probability`, say`Attends to (cross, layer ${layer + 1})`, say`Runners-up`];
  const rows = inspection.labels("target", true).map((word, row) => {
    const weights = columnLabels.map((label, column) => ({ label, weight: values[row * columns + column] }));
    const looks = weights.sort((a, b) => b.weight - a.weight).slice(0, MAX_LOOKS).map(({ label, weight }) => name(label, weight));
    const cells = [row + 1, word, formatProbability(probabilities[row]), looks.join(", "), listRunnersUp(inspection, row).map(([other, p]) => name(other, p)).join(", ")];
    return makeElement("tr", {}, cells.map((cell) => makeElement("td", {}, cell)));
  });
  return [makeElement("thead", {}, makeElement("tr", {}, head.map((text) => makeElement("th", {}, text)))), makeElement("tbody", {}, rows)];
}

// What else was likely in the place of a word: words if the page has them, otherwise pieces.
function listRunnersUp(inspection, index) {
  const [start] = inspection.spans("target", true)[index];
  const { alternatives, target } = inspection.data;
  const others = inspection.choices[index]?.map(({ word, probability }) => [word || "⟨end⟩", probability])
    ?? alternatives[start].filter(([id]) => id !== target.ids[start]).map(([, piece, probability]) => [piece.replaceAll("▁", ""), probability]);
  return others.filter(([word]) => word !== target.words[index]).slice(0, MAX_RUNNERS_UP);
}
