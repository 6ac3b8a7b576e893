// The translation: words shaded by probability, their alternatives, the n best.

const EDGES = [0.3, 0.5, 0.7, 0.9];

function shadeOf(probability) {
  return EDGES.filter((edge) => probability >= edge).length;
}

// The words of a translation, and under each the likeliest pieces.
function makeWords(sight, byWords, choose) {
  const labels = sight.labels("target", byWords);
  const probabilities = sight.probabilities(byWords);
  return sight.spans("target", byWords).map(([begin, end], i) => {
    const choices = [];
    for (let place = begin; place < end; place += 1) {
      choices.push(makeChoices(sight, place, choose));
    }
    return make("div", { class: "word" },
      make("span", { class: `said shade${shadeOf(probabilities[i])}`, title: `probability ${fixed(probabilities[i], 3)}` }, labels[i]),
      make("span", { class: "number" }, ` ${fixed(probabilities[i])}`),
      make("div", { class: "choices" }, choices));
  });
}

function makeChoices(sight, place, choose) {
  const chosen = sight.pack.target.ids[place];
  return make("ul", {}, sight.pack.alternatives[place].map(([id, piece, probability]) => {
    const share = make("span", { class: "share" });
    share.style.width = `${(100 * probability).toFixed(1)}%`;
    return make("li", {}, make("button", {
      type: "button", class: id === chosen ? "chosen" : null, "data-alternative": `${place}-${id}`,
      title: id === chosen ? "What the translation has" : "Keep what stands before it, and decode the rest anew",
      onclick: () => choose(place, id, piece),
    }, make("span", {}, piece), make("span", { class: "number" }, fixed(probability, 3)), share));
  }));
}

// What the shades mean.
function makeLegend(legend) {
  if (!legend) {
    return [make("span", {}, "Shade: the probability of a word. What that means on the dev set is not counted (yet).")];
  }
  const rows = legend.shades.map(([low, high, words, found], shade) =>
    make("span", {}, make("span", { class: `said shade${shade}` }, `${fixed(low, 1)}–${fixed(high, 1)}`),
      words ? ` ${Math.round((100 * found) / words)} % of ${words.toLocaleString("en")}` : " none"));
  return [make("span", {}, `Words so probable that stand in the reference, of ${legend.lines} dev sentences:`), ...rows];
}

function makeBest(sight, choose) {
  const shown = sight.pack.target.ids.slice(0, -1).join();
  return sight.pack.nBest.map((each, rank) => make("li", {},
    make("button", { type: "button", "aria-pressed": String(each.ids.join() === shown), "data-rank": rank, onclick: () => choose(each.ids) },
      each.text || "(empty)"),
    make("span", { class: "number" }, ` ${fixed(each.score, 3)}`)));
}

// How much each source word matters: leave it out.
function makeBars(sight) {
  const { without, source } = sight.pack;
  const sums = without.map((row) => row.reduce((a, b) => a + b, 0));
  const most = Math.max(...sums.map(Math.abs), 1e-6);
  return sums.map((sum, i) => {
    const length = make("div", { class: sum > 0 ? "length up" : "length" });
    length.style.width = `${((100 * Math.abs(sum)) / most).toFixed(1)}%`;
    const worst = without[i].indexOf(Math.min(...without[i]));
    return make("div", { class: "bar", title: `It matters most for “${sight.pack.target.pieces[worst]}”` },
      make("span", {}, source.words[i]), make("div", { class: "room" }, length), make("span", { class: "number" }, fixed(sum)));
  });
}
