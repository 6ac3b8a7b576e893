// What became of an expected translation in the search; the same as why_not.py.

// Follow a translation through the tree of a search. ids, logProbs, ranks: of its pieces,
// with the end. options: { size, limit }: of the beam; of a translation without its end.
function followTarget(nodes, ids, logProbs, ranks, { size, limit }) {
  let index = -1;
  let sum = 0;
  for (const [i, piece] of ids.entries()) {
    const step = i + 1;
    const candidates = nodes.filter((node) => node.step === step);
    const parent = index;
    index = nodes.findIndex((node) => node.parent === parent && node.piece === piece && node.step === step);
    sum += logProbs[i];
    if (index < 0) {
      if (step > limit && piece !== EOS) {
        return makeVerdict("too_long", { step, limit });
      }
      if (candidates.length === 0) { // the search has ended: nothing open could still win
        return makeVerdict("beaten");
      }
      const behind = Math.max(candidates[candidates.length - 1].logProb - sum, 0);
      return makeVerdict("unconsidered", { step, rank: ranks[i], limit: 2 * size, behind });
    }
    const { fate, rank, logProb } = nodes[index];
    if (fate === "ended") {
      return rank === 0 ? makeVerdict("best") : makeVerdict("n_best", { rank: rank + 1 });
    }
    if (fate === "cut") {
      const rivals = candidates.filter((node) => node.piece !== EOS);
      return makeVerdict("dropped", { step, rank: 1 + rivals.indexOf(nodes[index]), limit: size, behind: rivals[size - 1].logProb - logProb });
    }
  }
  return makeVerdict("beaten");
}

// Where a search with one hypothesis left a translation for the best one. row: index →
// the logits of the pieces that may stand there.
function judgePath(row, ids, best, ranks) {
  const index = ids.findIndex((id, i) => id !== best[i]);
  if (index < 0) {
    return makeVerdict("best");
  }
  const behind = row(index)[best[index]] - row(index)[ids[index]];
  if (behind < 0) { // the likeliest piece, which only the length limit excludes
    return makeVerdict("too_long", { step: index + 1, limit: index });
  }
  return makeVerdict("dropped", { step: index + 1, rank: ranks[index], limit: 1, behind });
}

function makeVerdict(kind, { step = 0, rank = 0, limit = 0, behind = 0 } = {}) {
  return { kind, step, rank, limit, behind };
}

// The rank of a piece among those that may follow; 1 is the likeliest.
function rankOf(logits, piece) {
  return 1 + logits.reduce((count, logit, id) => count + (logit > logits[piece] && !FORBIDDEN.includes(id)), 0);
}
