// chrF2 of a sentence (Popović 2015), as sacreBLEU computes it: n-grams of characters.

const CHRF_ORDER = 6; // the longest n-grams
const CHRF_BETA = 2; // how much more recall counts than precision

// From 0 to 100.
function chrf(translation, reference) {
  let [precision, recall, orders] = [0, 0, 0];
  for (let n = 1; n <= CHRF_ORDER; n += 1) {
    const [ours, theirs] = [countNgrams(translation, n), countNgrams(reference, n)];
    const total = (counts) => [...counts.values()].reduce((a, b) => a + b, 0);
    if (ours.size && theirs.size) {
      const matches = [...ours].reduce((sum, [ngram, count]) => sum + Math.min(count, theirs.get(ngram) ?? 0), 0);
      precision += matches / total(ours);
      recall += matches / total(theirs);
      orders += 1;
    }
  }
  const factor = CHRF_BETA ** 2;
  return recall ? (100 * (1 + factor) * precision * recall) / (factor * precision + recall) / orders : 0;
}

// The n-grams of characters of a text without white space → how often they occur.
function countNgrams(text, n) {
  const characters = [...text.replace(/\s/gu, "")];
  const counts = new Map();
  for (let i = 0; i + n <= characters.length; i += 1) {
    const ngram = characters.slice(i, i + n).join("");
    counts.set(ngram, (counts.get(ngram) ?? 0) + 1);
  }
  return counts;
}
