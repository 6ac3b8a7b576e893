// The role of each head: its entropy, and a phrase about it; like viewer/roles.py.

const MIN_SHARE = 0.4; // of its attention, for a head to have a role
const UNIFORM = 0.85; // of the greatest entropy, above which a head looks everywhere
const PLACES = {
  previous: "the previous position",
  same: "its own position",
  next: "the next position",
  first: "the first position",
  last: "the end of the sentence",
};
// Exceptions: source and target positions are counted separately, and the decoder does not
// see the end.
const PLACES_OF_KIND = {
  cross: {
    previous: "the source piece before the one at its own position",
    same: "the source piece at its own position",
    next: "the source piece after the one at its own position",
    first: "the first source position",
    last: "the end of the source",
  },
  decoder: { first: "the beginning" },
};

// weights: the rows of a head, one for each query → { entropy, most, share, text }.
function describeHead(weights, kind) {
  const mean = (numbers) => (numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : 0);
  const entropyOf = (row) => -row.reduce((sum, weight) => sum + (weight > 0 ? weight * Math.log2(weight) : 0), 0);
  const entropy = mean(weights.map(entropyOf));
  const most = mean(weights.map((row, q) => Math.log2(kind === "decoder" ? q + 1 : row.length)));
  const toNeighbours = (offset) => mean(weights.flatMap((row, q) => (q + offset in row ? [row[q + offset]] : [])));
  const shares = { first: mean(weights.map((row) => row[0])), same: toNeighbours(0) };
  if (kind !== "decoder") {
    shares.last = mean(weights.map((row) => row[row.length - 1]));
    shares.next = toNeighbours(1);
  }
  shares.previous = toNeighbours(-1);
  const [place, share] = sortBest(Object.entries(shares), ([, value]) => value)[0];
  if (share >= MIN_SHARE) {
    return { entropy, most, share, text: `looks at ${PLACES_OF_KIND[kind]?.[place] ?? PLACES[place]}` };
  }
  if (most && entropy >= UNIFORM * most) {
    return { entropy, most, share: entropy / most, text: "looks everywhere equally" };
  }
  const largest = mean(weights.map((row) => Math.max(...row))); // wherever it goes
  return { entropy, most, share: largest, text: largest < MIN_SHARE ? "looks at several pieces" : "looks at single pieces" };
}
