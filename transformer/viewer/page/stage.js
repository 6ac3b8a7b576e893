// The stage: how one step of the translation is made. Ribbons lead from the words that are
// attended to; below are the likeliest next words and the hypotheses of the search.

const STAGE = { height: 120, widest: 14, least: 0.05, beat: 300, line: 26, numDropped: 3, numEnding: 34, smallest: 15 };

const askedSteps = new WeakMap(); // inspection → the steps whose words were asked for

// What the stage draws: a matrix of attention, the words above and below the ribbons, and
// `row`, the word below whose ribbons are lit; null: all of them.
function makeScene({ inspection, highlight }, { kind, layer, head, byWords, step }) {
  const matrix = inspection.matrix(kind, layer, head, byWords);
  const isTranslating = kind !== "encoder";
  const row = (isTranslating ? step && step - 1 : highlight?.row) ?? null;
  return { kind, layer, head, matrix, isTranslating, row, above: matrix.columnLabels, below: isTranslating ? inspection.labels("target", byWords) : matrix.rowLabels };
}

// The words above, as bright as they are attended to. The decoder does not see later words.
function makeAbove({ matrix, above, kind, row }) {
  return above.map((word, i) => {
    const isLater = kind === "decoder" && row !== null && i > row;
    const spot = makeElement("span", { class: isLater ? "spot later" : "spot", dir: "auto", lang: languageOf(KINDS[kind].columns) }, makeElement("span", {}, word));
    const weight = row === null ? 0 : matrix.values[row * matrix.columns + i];
    if (weight >= STAGE.least) {
      const colour = weightColour(weight);
      spot.style.background = toCss(colour);
      spot.style.color = textColourOn(colour);
    }
    return spot;
  });
}

// The words below: those of the translation are buttons that choose a step.
function makeBelow({ below, kind, row, isTranslating }, choose) {
  return below.map((word, i) => {
    const isLater = isTranslating && row !== null && i > row;
    const attributes = { class: ["spot", isLater && "later", i === row && "now"].filter(Boolean).join(" "), dir: "auto", lang: isLater ? null : languageOf(KINDS[kind].rows) };
    return isTranslating
      ? makeElement("button", { ...attributes, type: "button", "data-step": i + 1, "aria-pressed": String(i === row), "aria-label": isLater ? say`Step ${i + 1}` : null, onclick: () => choose(i + 1) }, makeElement("span", {}, word))
      : makeElement("span", attributes, makeElement("span", {}, word));
  });
}

// The ribbons between two lines of words. Those of a word below stand side by side, so
// that together they are as wide as a weight of 1. above, below: the middles of the words.
function makeRibbons({ matrix, row }, above, below) {
  const { height, widest, least } = STAGE;
  return below.flatMap((middle, i) => {
    if (row !== null && row !== i) {
      return [];
    }
    let left = middle - widest / 2;
    return above.flatMap((start, j) => {
      const weight = matrix.values[i * matrix.columns + j];
      const width = weight * widest;
      const end = left + width / 2;
      left += width;
      return weight < least ? [] : [makeSvg("path", {
        d: `M${start} 0C${start} ${height / 2} ${end} ${height / 2} ${end} ${height}`,
        "stroke-width": width, pathLength: 1, "data-row": i, "data-column": j,
      })];
    });
  });
}

// What may come next in a step: { label, probability, isChosen, choice }; pieces, until
// the words for the place are known.
function findNextWords(inspection, [start, end], words) {
  const { target, alternatives, logProbs } = inspection.data;
  if (words) {
    return words.map((choice) => ({ label: choice.word || "⟨end⟩", probability: choice.probability, isChosen: isOwnWord(inspection, choice, end), choice: wordChoice(choice) }));
  }
  const chosen = target.ids[start];
  const pieces = alternatives[start].some(([id]) => id === chosen)
    ? alternatives[start]
    : [...alternatives[start], [chosen, target.pieces[start], Math.exp(logProbs[start])]];
  return pieces.map(([id, piece, probability]) => ({ label: piece.replaceAll("▁", "") || piece, probability, isChosen: id === chosen, choice: alternativeChoice(inspection, start, id) }));
}

// They are bars; a click on one tries it.
function makeNextWords(nextWords, choiceAttributes) {
  return nextWords.map(({ label, probability, isChosen, choice }, i) => {
    const bar = makeElement("span", { class: "length" });
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    return makeElement("button", {
      type: "button", class: isChosen ? "chosen" : null, "data-next": i, "aria-pressed": String(isChosen),
      title: isChosen ? say`Already in the translation` : say`Continue with this one, and decode the rest again`,
      ...(isChosen ? {} : choiceAttributes(choice)),
    }, makeElement("span", { class: "text", dir: "auto", lang: languageOf("target") }, label), makeElement("span", { class: "room" }, bar), makeElement("span", { class: "number" }, formatProbability(probability)));
  });
}

// The hypotheses after a number of pieces, the kept ones first: { node, ids, isDropped }.
function hypothesesAfter({ data }, count) {
  const nodes = nodesOf(data);
  return nodes.filter(({ step }) => step === count)
    .map((node) => ({ node, ids: idsOf(nodes, node.number), isDropped: node.fate === "cut" }))
    .sort((a, b) => a.isDropped - b.isDropped || b.node.logProb - a.node.logProb);
}

// Hypotheses as lines: the last words of each, its newest piece, and its log-probability.
function makeHypotheses(inspection, count) {
  const { nodePieces, target } = inspection.data;
  const displayed = target.ids.slice(0, count).join();
  const hypotheses = hypothesesAfter(inspection, count);
  const remaining = hypotheses.filter(({ isDropped }) => !isDropped);
  const dropped = hypotheses.slice(remaining.length, remaining.length + STAGE.numDropped);
  return [...remaining, ...dropped].map(({ node, ids, isDropped }) => {
    const before = ids.slice(0, -1).map((id) => nodePieces[id]).join("").replaceAll("▁", " ").trimStart();
    const newest = nodePieces[node.id].replaceAll("▁", " ").replace("⟨", " ⟨"); // the end
    const ending = [...before].length > STAGE.numEnding ? `…${[...before].slice(-STAGE.numEnding).join("").replace(/^\S+(?=\s)/, "")}` : before;
    const attributes = { class: [isDropped && "dropped", ids.join() === displayed && "displayed"].filter(Boolean).join(" ") || null, "data-hypothesis": node.number, "data-parent": node.parent };
    return makeElement("li", attributes,
      makeElement("span", { class: "text", dir: "auto", lang: languageOf("target") }, ending, makeElement("strong", {}, newest)),
      makeElement("span", { class: "number" }, formatNumber(node.logProb), isDropped ? makeElement("span", { role: "img", "aria-label": say`dropped` }, " ✂") : ""));
  });
}

// The head that is chosen, or how the heads of its layer are combined.
function describeHeads({ kind, layer, head }, count) {
  const place = say`${translate(KINDS[kind].name)}, layer ${layer + 1}`;
  if (typeof head === "number") {
    return placeOfHead(kind, layer, head);
  }
  return head === "max" ? say`${place}, maximum of ${count} heads` : say`${place}, mean of ${count} heads`;
}

// What happens in a step, in a sentence.
function describeStep({ kind, layer, matrix, row }, inspection) {
  if (row !== null) {
    const line = describeLine(matrix, { row });
    return kind === "decoder" ? say`The word read last: ${line}` : line;
  }
  return kind === "encoder"
    ? say`Encoder, layer ${layer + 1} of ${inspection.layersOf("encoder")}: every word of the source attends to every word.`
    : say`Play shows how this translation is made, word by word. Each ribbon leads from a word to one that attends to it; the wider, the more.`;
}

// The bars of the step, in words; "" if it has none.
function describeNextWords() {
  const bars = view.step > 0 ? [...byId("next").children].slice(0, 3) : [];
  const words = bars.map((bar) => `${quote(bar.querySelector(".text").textContent)} ${bar.querySelector(".number").textContent}`);
  return words.length ? say`Likeliest: ${words.join(", ")}.` : "";
}

// Drawing

function showStage() {
  const { inspection } = page;
  const scene = makeScene(page, view);
  const isStep = view.step > 0;
  replaceChildren(byId("above"), makeAbove(scene));
  replaceChildren(byId("below"), makeBelow(scene, chooseStep));
  byId("above-name").textContent = { encoder: scene.layer ? say`Layer ${scene.layer}` : say`Source`, decoder: say`Read so far`, cross: say`Source` }[scene.kind];
  byId("below-name").textContent = scene.isTranslating ? say`Translation` : say`Layer ${scene.layer + 1}`;
  byId("scene").textContent = describeHeads(scene, inspection.heads);
  byId("step-text").textContent = describeStep(scene, inspection);
  fitLines();
  makeLinesFocusable(scene);
  scrollLines(scene);
  showRibbons(scene);
  byId("step-choices").hidden = view.step === null;
  byId("step-choices").classList.toggle("later", !isStep); // they keep their room
  byId("kept").style.minHeight = `${(page.models[inspection.model].beam + STAGE.numDropped) * STAGE.line}px`; // in each step
  if (isStep) {
    byId("next-name").textContent = view.byWords ? say`Next word` : say`Next piece`;
    showNextWords();
    askForWords(inspection, view.step);
    askForWords(inspection, view.step + 1); // so that they are there in time
    byId("kept").replaceChildren(...makeHypotheses(inspection, spanOfStep()[1]));
  }
}

function showNextWords() {
  const words = view.byWords ? page.inspection.choices[view.step - 1] : undefined;
  replaceChildren(byId("next"), makeNextWords(findNextWords(page.inspection, spanOfStep(), words), choiceAttributes));
}

// Ask for the likeliest words of a step; the end of the translation is no word.
async function askForWords(inspection, step) {
  const asked = askedSteps.get(inspection) ?? new Set();
  askedSteps.set(inspection, asked);
  if (!view.byWords || step >= lastStep() || asked.has(step)) {
    return;
  }
  asked.add(step);
  try {
    inspection.choices[step - 1] ??= await page.source.listWords(inspection, step - 1);
  } catch {
    return; // the pieces stay
  }
  if (page.inspection === inspection && view.step === step && view.byWords) {
    showNextWords();
  }
}

// A long sentence is smaller, so that more of it is in view.
function fitLines() {
  const lines = byId("lines");
  lines.style.removeProperty("--spot");
  const style = getComputedStyle(byId("above"));
  const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
  const [room, ...widths] = [lines.clientWidth, byId("above").scrollWidth, byId("below").scrollWidth].map((width) => width - padding);
  const size = Number.parseFloat(getComputedStyle(lines).getPropertyValue("--spot"));
  const isTooLong = () => [byId("above"), byId("below")].some((line) => line.scrollWidth > line.clientWidth);
  let fitting = Math.floor((size * room) / Math.max(...widths));
  while (isTooLong() && fitting >= STAGE.smallest) { // borders stay as wide: one step may not be enough
    lines.style.setProperty("--spot", `${fitting}px`);
    fitting -= 1;
  }
  if (isTooLong()) {
    lines.style.setProperty("--spot", `${STAGE.smallest}px`);
  }
}

// Lines that are still too long scroll, each for itself. The keys do that where no word is a
// button.
function makeLinesFocusable({ isTranslating }) {
  for (const line of [byId("above"), byId("below")]) {
    const hasButtons = isTranslating && line === byId("below");
    if (line.scrollWidth > line.clientWidth && !hasButtons) {
      line.tabIndex = 0;
    } else {
      line.removeAttribute("tabindex"); // a click would take the keys from the player
    }
  }
}

// Scroll the word of the step into the middle, and the one that it attends to most. The
// lines of the encoder are the same words, one below the other.
function scrollLines({ kind, matrix, row }) {
  if (kind === "encoder") {
    scrollToMiddle(byId("below"), byId("below").children[row ?? 0]);
    byId("above").scrollLeft = byId("below").scrollLeft;
  } else if (row !== null) {
    const weights = matrix.values.slice(row * matrix.columns, (row + 1) * matrix.columns);
    scrollToMiddle(byId("above"), byId("above").children[weights.indexOf(Math.max(...weights))]);
    scrollToMiddle(byId("below"), byId("below").children[row]);
  }
}

function scrollToMiddle(line, word) {
  const [frame, box] = [line, word].map((element) => element.getBoundingClientRect());
  line.scrollLeft += (box.left + box.right - frame.left - frame.right) / 2;
}

const shownLines = { above: 0, below: 0 }; // how far they were scrolled when the ribbons were drawn

function showRibbons(scene) {
  const { left } = byId("lines").getBoundingClientRect();
  const middles = ["above", "below"].map((id) => [...byId(id).children].map((word) => {
    const box = word.getBoundingClientRect();
    return (box.left + box.right) / 2 - left;
  }));
  const ribbons = byId("ribbons");
  ribbons.setAttribute("height", STAGE.height);
  ribbons.classList.toggle("all", scene.row === null);
  ribbons.replaceChildren(...makeRibbons(scene, ...middles));
  for (const id of ["above", "below"]) {
    shownLines[id] = byId(id).scrollLeft;
  }
  fadeEdges();
}

// Where a line goes on beyond an edge, words and ribbons fade.
function fadeEdges() {
  const lines = [byId("above"), byId("below")];
  const hidden = (line) => line.scrollWidth - line.clientWidth;
  const isRightToLeft = (line) => getComputedStyle(line).direction === "rtl";
  const left = (line) => (isRightToLeft(line) ? hidden(line) + line.scrollLeft : line.scrollLeft);
  const fade = (element, ofLines) => {
    element.classList.toggle("more-left", ofLines.some((line) => left(line) > 1));
    element.classList.toggle("more-right", ofLines.some((line) => hidden(line) - left(line) > 1));
  };
  lines.forEach((line) => fade(line, [line]));
  fade(byId("ribbons"), lines);
}

// If the reader scrolls a line, the other one follows, and the ribbons, too.
function followScroll({ target }) {
  if (!page.inspection || Math.abs(target.scrollLeft - shownLines[target.id]) < 1) {
    return;
  }
  const other = byId(target.id === "above" ? "below" : "above");
  const end = (line) => (line.scrollWidth - line.clientWidth) * (getComputedStyle(line).direction === "rtl" ? -1 : 1);
  other.scrollLeft = (target.scrollLeft / end(target)) * end(other);
  showRibbons(makeScene(page, view));
}

// The parts of the page below the stage.
const BELOW_STAGE = ["reading", "comparison", "attention", "without", "why", "search"];

// The one that the reader looks at; undefined: above them.
function partInView() {
  return BELOW_STAGE.find((id) => {
    const { top, bottom } = byId(id).getBoundingClientRect();
    return top < innerHeight / 2 && bottom > innerHeight / 2;
  });
}

// Scroll the page to the stage when the clock is moved, unless the reader looks at another part.
function scrollToStage() {
  if (!partInView()) {
    byId("stage").scrollIntoView({ block: "nearest" });
  }
}

// A reader who looks at the heat map or the beam tree sees the step there.
function scrollToStep() {
  const part = view.step > 0 ? partInView() : "";
  if (part === "search") {
    byId("tree").querySelector(".now")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  } else if (part === "attention") {
    const { scrollPaddingTop, scrollPaddingBottom } = getComputedStyle(document.documentElement);
    const { top, cell } = page.layout;
    const row = byId("heat").getBoundingClientRect().top + top + (view.step - 1) * cell;
    const bottom = innerHeight - (parseFloat(scrollPaddingBottom) || 0);
    scrollBy(0, Math.min(row - parseFloat(scrollPaddingTop), 0) + Math.max(row + cell - bottom, 0));
  }
}

function addStageListeners() {
  for (const id of ["above", "below"]) {
    byId(id).addEventListener("scroll", followScroll);
  }
}

// The three beats of a step: ribbons grow, bars grow, and hypotheses change places.
// `before`: where the hypotheses stood, node → pixels from the top.
function animateStep(before, speed) {
  const animate = (element, frames, beat) => element.animate(frames, { duration: STAGE.beat / speed, delay: (beat * STAGE.beat) / speed, fill: "backwards", easing: "ease-out" });
  for (const ribbon of byId("ribbons").children) {
    animate(ribbon, { strokeDasharray: ["1 1", "1 1"], strokeDashoffset: [1, 0] }, 0);
  }
  if (view.step < 1) {
    return;
  }
  for (const bar of byId("next").querySelectorAll(".length")) {
    animate(bar, { transform: ["scaleX(0)", "none"] }, 1);
  }
  const nodes = page.inspection.data.nodes;
  for (const line of byId("kept").children) {
    let ancestor = Number(line.dataset.hypothesis);
    while (ancestor >= 0 && !before.has(ancestor)) {
      [ancestor] = nodes[ancestor];
    }
    const from = before.has(ancestor) ? `translateY(${before.get(ancestor) - line.offsetTop}px)` : "none";
    animate(line, { transform: [from, "none"], opacity: [0, 1] }, 2);
  }
}

function placesOfHypotheses() {
  return new Map([...byId("kept").children].map((line) => [Number(line.dataset.hypothesis), line.offsetTop]));
}
