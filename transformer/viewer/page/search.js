// Search: from the steps of a model to the best translations; the same as decoding.py, for
// one sentence. A hypothesis is { ids, logProb, node }; it ends with EOS.

const FORBIDDEN = [PAD, BOS];

// The n best, best first: { hypotheses: [{ ids, score, … }], nodes }. limit: the largest
// number of pieces, with EOS. options: { beamSize, penalty, prefix }; a score is the
// log-probability / penalty(length).
function search(model, memory, limit, options) {
  return options.beamSize > 1 ? beam(model, memory, limit, options) : greedy(model, memory, limit, options);
}

// Take the likeliest piece at each position.
function greedy(model, memory, limit, options) {
  let state = model.startSearch(memory);
  let best = { ids: [], logProb: 0 };
  do {
    const [logits, normalizers, next] = model.step([best.ids[best.ids.length - 1] ?? BOS], [0], state);
    state = next;
    const forced = forcedPiece(best.ids.length, limit, options);
    const [{ piece, logProb }] = bestContinuations([best], logits, normalizers, 1, forced);
    best = { ids: [...best.ids, piece], logProb };
  } while (best.ids[best.ids.length - 1] !== EOS);
  return { hypotheses: [{ ...best, score: best.logProb / options.penalty(best.ids.length) }], nodes: [] };
}

// Beam search with a length penalty (section 6.1). Each step considers the 2K best
// continuations of the K open hypotheses. Those that end compete with the finished ones
// for K places; the K best of the others stay open. The search is done when the best open
// one could not become one of the n best, even if it grew to the limit without losing
// log-probability. `nodes` has every continuation: the tree of the search.
function beam(model, memory, limit, options) {
  const size = options.beamSize;
  const nodes = [];
  let state = model.startSearch(memory);
  let finished = []; // the K best so far
  let open = [{ ids: [], logProb: 0, parent: 0, node: -1 }];
  const isOpen = () => open.length > 0
    && open[0].logProb / options.penalty(limit) > (finished[size - 1]?.score ?? -Infinity);
  while (isOpen()) {
    const length = open[0].ids.length + 1;
    const [logits, normalizers, next] = model.step(open.map(({ ids }) => ids[ids.length - 1] ?? BOS), open.map(({ parent }) => parent), state);
    state = next;
    const forced = forcedPiece(length - 1, limit, options);
    const candidates = bestContinuations(open, logits, normalizers, 2 * size, forced).map(({ parent, piece, logProb }) => {
      const score = logProb / options.penalty(length);
      nodes.push({ parent: open[parent].node, step: length, piece, logProb, score, fate: "cut", rank: -1 });
      return { ids: [...open[parent].ids, piece], parent, logProb, score, node: nodes.length - 1 };
    });
    const ends = (candidate) => candidate.ids[length - 1] === EOS;
    const ended = candidates.filter(ends);
    open = candidates.filter((candidate) => !ends(candidate)).slice(0, size);
    finished = sortBest([...finished, ...ended], ({ score }) => score).slice(0, size);
    ended.forEach(({ node }) => { nodes[node].fate = "beaten"; });
    open.forEach(({ node }) => { nodes[node].fate = "open"; });
  }
  finished.forEach(({ node }, rank) => Object.assign(nodes[node], { fate: "ended", rank }));
  return { hypotheses: finished, nodes };
}

// The piece that must come next: of the prefix, or EOS at the limit; null: any.
function forcedPiece(length, limit, { prefix }) {
  return length + 1 === limit ? EOS : prefix[length] ?? null;
}

// The `count` best continuations of hypotheses, best first: { parent, piece, logProb }.
// logits: [K, V], of their next pieces; normalizers: [K].
function bestContinuations(hypotheses, logits, normalizers, count, forced) {
  const size = logits.length / hypotheses.length; // V
  const continuations = hypotheses.flatMap(({ logProb }, parent) => {
    const row = logits.subarray(parent * size, (parent + 1) * size);
    const pieces = forced === null ? likeliestPieces(row, count) : [forced];
    return pieces.map((piece) => ({ parent, piece, logProb: logProb + row[piece] - normalizers[parent] }));
  });
  return sortBest(continuations, ({ logProb }) => logProb).slice(0, count);
}

// The pieces with the largest logits, best first; of equal ones, the first.
function likeliestPieces(logits, count) {
  const pieces = [];
  let least = -Infinity; // the logit to beat
  for (let piece = nextAbove(logits, 0, least); piece < logits.length; piece = nextAbove(logits, piece + 1, least)) {
    if (!FORBIDDEN.includes(piece)) {
      insertPiece(pieces, piece, logits);
      pieces.length = Math.min(pieces.length, count);
      least = pieces.length < count ? -Infinity : logits[pieces[count - 1]];
    }
  }
  return pieces;
}

// The next piece, from a piece on, with a logit above a bound. Nearly all the time of
// `likeliestPieces` is spent in this loop, which is faster in a function of its own.
function nextAbove(logits, from, bound) {
  let piece = from;
  while (piece < logits.length && !(logits[piece] > bound)) {
    piece += 1;
  }
  return piece;
}

// Insert a piece into the list of the likeliest ones.
function insertPiece(pieces, piece, logits) {
  const place = pieces.findIndex((other) => logits[piece] > logits[other]);
  pieces.splice(place < 0 ? pieces.length : place, 0, piece);
}

function sortBest(items, valueOf) {
  return [...items].sort((a, b) => valueOf(b) - valueOf(a));
}

// By default ((5 + length) / 6) ^ alpha (Wu et al. 2016, equation 14); or length ^ alpha.
function lengthPenalty(length, alpha, form) {
  return (form === "power" ? length : (5 + length) / 6) ** alpha;
}
