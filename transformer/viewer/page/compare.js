// Two models on the same sentence.

// Which words of two translations are in both, in order: [bool of one, bool of other].
function inBoth(one, other) {
  const lengths = one.map(() => new Array(other.length + 1).fill(0));
  lengths.push(new Array(other.length + 1).fill(0));
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = one[i] === other[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = [one.map(() => false), other.map(() => false)];
  let [i, j] = [0, 0];
  while (i < one.length && j < other.length) {
    if (one[i] === other[j]) {
      found[0][i] = true;
      found[1][j] = true;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return found;
}

// `isChosen`: the first translation is not the model's own.
function makeComparison(models, sights, isChosen) {
  const words = sights.map((sight) => sight.pack.target.words.slice(0, -1));
  const same = inBoth(...words);
  return make("div", { class: "pair" }, sights.map((sight, which) => {
    const { name } = models[sight.model];
    const total = sight.pack.logProbs.reduce((a, b) => a + b, 0);
    return make("div", {}, make("h3", {}, name + (which === 0 && isChosen ? " (your choice)" : "")),
      make("p", { class: "translation", dir: "auto" }, words[which].map((word, i) => [
        same[which][i] ? make("span", {}, word) : make("mark", {}, word), " "]).flat()),
      make("p", { class: "number" }, `log-probability ${fixed(total, 3)}`));
  }));
}

// The matrix of another model; null where it has no such layer or head.
function otherMatrix(other, kind, layer, head, byWords) {
  const isThere = other && layer < other.layersOf(kind) && (typeof head !== "number" || head < other.heads);
  return isThere ? other.matrix(kind, layer, head, byWords) : null;
}

// A function of kind, layer and head: the matrix, or its difference from that of another
// model where both have the same words, layers and heads. Heads of two training runs
// have no common order: only what is over all heads of a layer is subtracted.
function comparedMatrix(sight, other, byWords, isSameRun) {
  return (kind, layer, head) => {
    const matrix = sight.matrix(kind, layer, head, byWords);
    const isComparable = isSameRun || typeof head !== "number";
    const theirs = isComparable ? otherMatrix(other, kind, layer, head, byWords) : null;
    return (theirs && difference(matrix, theirs)) || matrix;
  };
}
