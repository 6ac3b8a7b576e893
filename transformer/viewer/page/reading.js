// The pieces of a translation with their alternatives, the n best, and what each source word does.

const SHADE_LIMITS = [0.3, 0.5, 0.7, 0.9];

function shadeOf(probability) {
  return SHADE_LIMITS.filter((limit) => probability >= limit).length;
}

// The pieces of a translation, each above the likeliest pieces for its place.
// `choiceAttributes` maps a choice to the attributes of its button.
function makePieces(inspection, choiceAttributes) {
  const probabilities = inspection.probabilities(false);
  return inspection.labels("target", false).map((piece, place) => makeElement("div", { class: "piece" },
    makeElement("span", { class: `text shade${shadeOf(probabilities[place])}`, lang: languageOf("target") }, piece),
    makeElement("span", { class: "number" }, ` ${formatProbability(probabilities[place])}`),
    makeElement("div", { class: "choices" }, makeChoices(inspection, place, choiceAttributes))));
}

function makeChoices(inspection, place, choiceAttributes) {
  const chosen = inspection.data.target.ids[place];
  return makeElement("ul", {}, inspection.data.alternatives[place].map(([id, piece, probability]) => {
    const share = makeElement("span", { class: "share" });
    share.style.width = `${(100 * probability).toFixed(1)}%`;
    return makeElement("li", {}, makeElement("button", {
      type: "button", class: id === chosen ? "chosen" : null, "data-alternative": `${place}-${id}`,
      title: id === chosen ? say`Already in the translation` : say`Keep the pieces before it, and decode the rest again`,
      ...(id === chosen ? {} : choiceAttributes(alternativeChoice(inspection, place, id))),
    }, makeElement("span", { lang: languageOf("target") }, piece), makeElement("span", { class: "number" }, formatProbability(probability, 3)), share));
  }));
}

// The choice of an alternative: keep the pieces before it, and decode the rest again.
function alternativeChoice(inspection, place, id) {
  const { ids } = inspection.data.target;
  const isEnd = id === ids[ids.length - 1];
  const before = ids.slice(0, place);
  return isEnd ? { prefix: [], target: before } : { prefix: [...before, id], target: null };
}

function makeNBest(inspection, choiceAttributes) {
  const displayed = inspection.data.target.ids.slice(0, -1).join();
  return inspection.data.nBest.map((best, rank) => makeElement("li", {},
    makeElement("button", { type: "button", "aria-pressed": String(best.ids.join() === displayed), "data-rank": rank, dir: "auto", lang: languageOf("target"), ...choiceAttributes({ prefix: inspection.prefix, target: best.ids }) },
      best.text || say`(empty)`),
    makeElement("span", { class: "number" }, ` ${formatNumber(best.score, 3)} `),
    page.source.isFrozen || rank === 0 ? "" : makeWhyNotButton(best)));
}

// The effect of leaving out each source word, as bars to the left and right of zero. without:
// that of the words so far.
function makeBars(inspection, without) {
  const { source } = inspection.data;
  const sums = without.map((row) => row.reduce((a, b) => a + b, 0));
  const smallest = Math.min(...sums, 0);
  const range = Math.max(...sums, 0, smallest + 1e-6) - smallest;
  const share = (value) => `${((100 * value) / range).toFixed(1)}%`;
  return sums.map((sum, i) => {
    const length = makeElement("div", { class: sum > 0 ? "length up" : "length" });
    length.style.left = share(Math.min(sum, 0) - smallest);
    length.style.width = share(Math.abs(sum));
    const zero = makeElement("div", { class: "zero" });
    zero.style.left = share(-smallest);
    const worst = without[i].indexOf(Math.min(...without[i]));
    return makeElement("div", { class: "bar", title: say`It matters most for ${quote(inspection.data.target.pieces[worst])}` },
      makeElement("span", { dir: "auto", lang: languageOf("source"), class: inspection.isUnknown(i, true) ? "unknown" : null }, source.words[i]), makeElement("div", { class: "room" }, zero, length), makeElement("span", { class: "number" }, formatNumber(sum)));
  });
}
