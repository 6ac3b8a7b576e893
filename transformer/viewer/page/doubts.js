// What a model doubts in a sentence that it has translated; the twin of viewer/doubts.py.

// The words of the best translation with their probabilities, [{ word, probability }]; null
// if the search has no tree.
function rateWords(vocabulary, { nBest, nodes }) {
  const sums = []; // log-probabilities up to each piece
  for (let node = nodes.find(({ rank }) => rank === 0); node; node = nodes[node.parent]) {
    sums.unshift(node.logProb);
  }
  const { words, spans } = splitIntoWords(vocabulary, nBest[0].ids);
  const probability = ([start, end]) => Math.exp(sums[end - 1] - (start ? sums[start - 1] : 0));
  return nodes.length ? words.map((word, i) => ({ word, probability: probability(spans[i]) })) : null;
}

// The words of a line with a piece that is not in the vocabulary.
function listUnknownWords(vocabulary, ids, line) {
  const { words, spans } = restoreUnknownWords(splitIntoWords(vocabulary, ids), vocabulary, line);
  return words.filter((_, i) => ids.slice(...spans[i]).includes(UNK));
}
