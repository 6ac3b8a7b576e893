// The translation: words shaded by probability, their alternatives, the n best.

const EDGES = [0.3, 0.5, 0.7, 0.9];

function shadeOf(probability) {
  return EDGES.filter((edge) => probability >= edge).length;
}

// The words of a translation, and under each the likeliest pieces. `choosing` is a
// function of a choice: the attributes of what makes it.
function makeWords(sight, byWords, choosing) {
  const labels = sight.labels("target", byWords);
  const probabilities = sight.probabilities(byWords);
  return sight.spans("target", byWords).map(([begin, end], i) => {
    const choices = [];
    for (let place = begin; place < end; place += 1) {
      choices.push(makeChoices(sight, place, choosing));
    }
    return make("div", { class: "word" },
      make("span", { class: `said shade${shadeOf(probabilities[i])}`, title: `probability ${fixed(probabilities[i], 3)}` }, labels[i]),
      make("span", { class: "number" }, ` ${fixed(probabilities[i])}`),
      make("div", { class: "choices" }, choices));
  });
}

function makeChoices(sight, place, choosing) {
  const chosen = sight.pack.target.ids[place];
  return make("ul", {}, sight.pack.alternatives[place].map(([id, piece, probability]) => {
    const share = make("span", { class: "share" });
    share.style.width = `${(100 * probability).toFixed(1)}%`;
    return make("li", {}, make("button", {
      type: "button", class: id === chosen ? "chosen" : null, "data-alternative": `${place}-${id}`,
      title: id === chosen ? "Already in the translation" : "Keep what comes before it, and decode the rest again",
      ...(id === chosen ? {} : choosing(alternative(sight, place, id))),
    }, make("span", {}, piece), make("span", { class: "number" }, fixed(probability, 3)), share));
  }));
}

// What an alternative asks for: what stands before it is kept, the rest decoded anew.
function alternative(sight, place, id) {
  const { ids } = sight.pack.target;
  const isEnd = id === ids[ids.length - 1];
  const before = ids.slice(0, place);
  return isEnd ? { prefix: [], target: before } : { prefix: [...before, id], target: null };
}

function makeBest(sight, choosing) {
  const shown = sight.pack.target.ids.slice(0, -1).join();
  return sight.pack.nBest.map((each, rank) => make("li", {},
    make("button", { type: "button", "aria-pressed": String(each.ids.join() === shown), "data-rank": rank, dir: "auto", ...choosing({ prefix: sight.prefix, target: each.ids }) },
      each.text || "(empty)"),
    make("span", { class: "number" }, ` ${fixed(each.score, 3)}`)));
}

// How much each source word matters: leave it out. Bars go left and right from zero.
function makeBars(sight) {
  const { without, source } = sight.pack;
  const sums = without.map((row) => row.reduce((a, b) => a + b, 0));
  const least = Math.min(...sums, 0);
  const room = Math.max(...sums, 0, least + 1e-6) - least;
  const share = (value) => `${((100 * value) / room).toFixed(1)}%`;
  return sums.map((sum, i) => {
    const length = make("div", { class: sum > 0 ? "length up" : "length" });
    length.style.left = share(Math.min(sum, 0) - least);
    length.style.width = share(Math.abs(sum));
    const zero = make("div", { class: "zero" });
    zero.style.left = share(-least);
    const worst = without[i].indexOf(Math.min(...without[i]));
    return make("div", { class: "bar", title: `It matters most for “${sight.pack.target.pieces[worst]}”` },
      make("span", { dir: "auto" }, source.words[i]), make("div", { class: "room" }, zero, length), make("span", { class: "number" }, fixed(sum)));
  });
}
