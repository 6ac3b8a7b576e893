// Two models on the same sentence.

// The longest common subsequence of two lists of words: for each list, whether each word
// belongs to it.
function findCommonWords(first, second) {
  const lengths = first.map(() => new Array(second.length + 1).fill(0));
  lengths.push(new Array(second.length + 1).fill(0));
  for (let i = first.length - 1; i >= 0; i -= 1) {
    for (let j = second.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = first[i] === second[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const isCommon = [first.map(() => false), second.map(() => false)];
  let [i, j] = [0, 0];
  while (i < first.length && j < second.length) {
    if (first[i] === second[j]) {
      isCommon[0][i] = true;
      isCommon[1][j] = true;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return isCommon;
}

// `isChosen`: whether the first translation is a choice of the user.
function makeComparison(models, inspections, isChosen) {
  const words = inspections.map((inspection) => inspection.data.target.words.slice(0, -1));
  const isCommon = findCommonWords(...words);
  return makeElement("div", { class: "pair" }, inspections.map((inspection, index) => {
    const { name } = models[inspection.model];
    const total = inspection.data.logProbs.reduce((a, b) => a + b, 0);
    return makeElement("div", {}, makeElement("h3", {}, name, index === 0 && isChosen ? ` ${say`(your choice)`}` : ""),
      makeElement("p", { class: "translation", dir: "auto", lang: languageOf("target", inspection.model) }, words[index].map((word, i) => [
        isCommon[index][i] ? makeElement("span", {}, word) : makeElement("mark", {}, word), " "]).flat()),
      makeElement("p", { class: "number" }, say`log-probability ${formatNumber(total, 3)}`),
      makeElement("ol", {}, inspection.data.nBest.map(({ text, score }) => makeElement("li", {},
        makeElement("span", { dir: "auto", lang: languageOf("target", inspection.model) }, text), makeElement("span", { class: "number" }, ` ${formatNumber(score, 3)}`)))));
  }));
}

// The matrix of the other model; null if it has no such layer or head.
function otherMatrix(other, kind, layer, head, byWords) {
  const exists = other && layer < other.layersOf(kind) && (typeof head !== "number" || head < other.heads);
  return exists ? other.matrix(kind, layer, head, byWords) : null;
}

// A function of kind, layer and head that returns the matrix, or its difference from the
// other model if both have the same words, layers and heads. Heads of two training runs
// have no common order: only their mean and maximum are subtracted.
function matrixGetter(inspection, other, byWords, isSameRun) {
  return (kind, layer, head) => {
    const matrix = inspection.matrix(kind, layer, head, byWords);
    const isComparable = isSameRun || typeof head !== "number";
    const subtrahend = isComparable ? otherMatrix(other, kind, layer, head, byWords) : null;
    return (subtrahend && subtract(matrix, subtrahend)) || matrix;
  };
}
