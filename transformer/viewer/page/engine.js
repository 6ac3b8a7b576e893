// Translate a sentence, and inspect the translation, as the server does: the twin of
// viewer/models.py and viewer/inspection.py.

const MAX_PIECES = 256; // of a sentence: attention grows with the square of this
const MAX_SEARCHES = 50; // whose results are kept, so that no sentence is searched twice
const NUM_ALTERNATIVES = 5;
const NUM_CHOICES = 6; // words for the place of a word
const MAX_ADDED = 8; // pieces that complete a word: without spaces, words may have no end
const WEIGHT_STEPS = 65535; // a weight is stored as an integer from 0 to this
// Characters that change only how text is displayed; see DISPLAY_MARKS of text/lines.py.
const DISPLAY_MARKS = /[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

class Engine {
  // file: a Uint8Array, safetensors. kernels: PlainKernels or WasmKernels.
  constructor(file, kernels) {
    const { settings, tensors } = readWeights(file);
    const names = settings.vocabularies;
    this.settings = settings;
    // Copies: only what is copied is kept of the file.
    this.source = new Vocabulary(tensors.get(names.source).data.slice());
    this.target = names.target === names.source ? this.source : new Vocabulary(tensors.get(names.target).data.slice());
    [names.source, names.target].forEach((name) => tensors.delete(name));
    this.model = new Transformer(settings, tensors, kernels);
    this.arena = kernels.arena;
    this.searches = new Map(); // the latest ones
  }

  // The n best translations of a sentence: [{ text, score }]; the best one with what the
  // model doubts, { words, unknown }. One without pieces has an empty translation.
  translate({ text: sentence }) {
    const source = this.encode(sentence);
    const result = source.length ? this.search(source, []) : { nBest: [{ ids: [], text: "", score: 0 }], nodes: [] };
    const doubts = { words: rateWords(this.target, result), unknown: listUnknownWords(this.source, source, cleanText(sentence)) };
    return result.nBest.map(({ text, score }, rank) => ({ text, score, ...(rank === 0 ? doubts : {}) }));
  }

  // The ids of a sentence, checked.
  encode(text) {
    const ids = this.source.encode(cleanText(text));
    const limit = Math.min(MAX_PIECES, this.settings.max_source_length);
    if (ids.length > limit) {
      throw refuse(`The sentence has ${ids.length.toLocaleString("en")} pieces; at most ${limit} are translated.`, "too_many_pieces", [ids.length, limit]);
    }
    return ids;
  }

  // The ids of a sentence that is not empty.
  encodeSentence(text) {
    const ids = this.encode(text);
    if (ids.length === 0) {
      throw refuse("Refused: expected a sentence, got a line without pieces.", "no_pieces");
    }
    return ids;
  }

  checkIds(ids) {
    const wrong = ids.find((id) => [PAD, BOS, EOS].includes(id) || id >= this.target.size);
    if (wrong !== undefined) {
      throw new Error(`Refused: expected ids of pieces below ${this.target.size.toLocaleString("en")}, without padding, beginning or end, got ${wrong}.`);
    }
  }

  // Search for the translations of ids, unless that has been done lately:
  // { nBest: [{ ids, text, score }], nodes }. off: scope name → the heads that are off.
  search(source, prefix, off = new Map()) {
    const key = JSON.stringify([source, prefix, [...off]]);
    if (!this.searches.has(key)) {
      const { settings } = this;
      const limit = Math.max(source.length + 1 + settings.max_extra_length, prefix.length + 1);
      const options = { beamSize: settings.num_hypotheses, penalty: (length) => this.penalty(length), prefix };
      const { hypotheses, nodes } = this.arena.scope(() => search(this.model, this.model.encode([...source, EOS], { off }), limit, options));
      const nBest = hypotheses.map(({ ids, score }) => ({
        ids: this.target.stripSpecial(ids), score, text: this.target.decode(ids).split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/).join(" "),
      }));
      this.searches.set(key, { nBest, nodes });
      if (this.searches.size > MAX_SEARCHES) {
        this.searches.delete(this.searches.keys().next().value); // the oldest
      }
    }
    return this.searches.get(key);
  }

  penalty(length) {
    return lengthPenalty(length, this.settings.length_penalty, this.settings.length_penalty_form);
  }

  // The decoder reads a given translation: { attention: kind → [layers, H, Tq, Tk],
  // logits [T, V], normalizers [T], logProbs [T] }.
  force(source, target) {
    const weights = new Map();
    const memory = this.model.encode([...source, EOS], { weights });
    const [logits, normalizers] = this.model.decode([BOS, ...target], memory, { weights });
    const logProbs = this.score(logits, normalizers, target);
    const stack = (name, count) => Array.from({ length: count }, (_, i) => weights.get(name.replace("*", i)));
    const { encoder_blocks: encoderBlocks, decoder_blocks: decoderBlocks } = this.settings;
    const attention = {
      encoder: stack("encoder/block_*/self_attention", encoderBlocks),
      decoder: stack("decoder/block_*/self_attention", decoderBlocks),
      cross: stack("decoder/block_*/cross_attention", decoderBlocks),
    };
    return { attention, logits, normalizers, logProbs };
  }

  // The log-probabilities [T] of a target, with its end. off: as in `search`.
  scoreTarget(memory, target, off = new Map()) {
    const [logits, normalizers] = this.model.decode([BOS, ...target], memory, { off });
    return this.score(logits, normalizers, target);
  }

  // The same from what the decoder has computed: logits [T, V], normalizers [T].
  score(logits, normalizers, target) {
    return [...target, EOS].map((id, i) => logits[i * this.target.size + id] - normalizers[i]);
  }

  // Inspect the translation of a text: what `to_json` of inspection.py returns, but for
  // `without`, which takes longer: see `leaveOutWords`.
  inspect({ text, prefix, target }) {
    const source = this.encodeSentence(text);
    this.checkIds(prefix);
    const { nBest, nodes } = this.search(source, prefix);
    const ids = target || nBest[0].ids;
    this.checkIds(ids);
    const { attention, logits, normalizers, logProbs } = this.force(source, ids);
    const sourceTokens = splitIntoWords(this.source, [...source, EOS]);
    const [numSource, numTarget] = [source.length + 1, ids.length + 1];
    const lengths = { encoder: [numSource, numSource], decoder: [numTarget, numTarget], cross: [numTarget, numSource] };
    const tree = nodes.length ? nodes : this.makePath(ids, logProbs, ids.join() === nBest[0].ids.join());
    const nodeIds = [...new Set(tree.map(({ piece }) => piece))];
    return {
      source: restoreUnknownWords(sourceTokens, this.source, cleanText(text)),
      targetIn: splitIntoWords(this.target, [BOS, ...ids]),
      target: splitIntoWords(this.target, [...ids, EOS]),
      realSource: numSource,
      nBest,
      attention: mapValues(attention, (layers, kind) => packWeights(layers, this.settings.num_heads, lengths[kind])),
      roles: mapValues(attention, (layers, kind) => layers.map((weights) => this.describeHeads(weights, lengths[kind], kind))),
      logProbs,
      alternatives: this.findAlternatives(logits, normalizers),
      nodes: tree.map(({ parent, step, piece, logProb, score, fate, rank }) => [parent, step, piece, logProb, score, fate, rank]),
      nodePieces: Object.fromEntries(nodeIds.map((id) => [id, splitIntoWords(this.target, [id]).pieces[0]])),
    };
  }

  // Explain what became of an expected translation, which is text or ids without the end:
  // what `explanation_to_json` of why_not.py returns.
  explain({ text, target }) {
    const source = this.encodeSentence(text);
    const { nBest, nodes } = this.search(source, []);
    const expected = this.encodeTarget(target, nBest);
    this.checkIds(expected);
    const [ids, best] = [[...expected, EOS], [...nBest[0].ids, EOS]];
    const { logits, normalizers, logProbs } = this.force(source, expected);
    const row = (i) => logits.subarray(i * this.target.size, (i + 1) * this.target.size);
    const ranks = ids.map((id, i) => rankOf(row(i), id));
    const turn = ranks.findIndex((rank) => rank > 1);
    const options = { size: this.settings.num_hypotheses, limit: source.length + this.settings.max_extra_length };
    const tokens = splitIntoWords(this.target, ids);
    return {
      target: typeof target === "string" ? restoreUnknownWords(tokens, this.target, cleanText(target)) : tokens,
      logProbs,
      ranks,
      score: logProbs.reduce((a, b) => a + b, 0) / this.penalty(ids.length),
      bestTarget: splitIntoWords(this.target, best),
      bestScore: nBest[0].score,
      turn: turn < 0 ? null : turn,
      instead: turn < 0 ? null : this.likeliestWord(row(turn), normalizers[turn]),
      verdict: nodes.length ? followTarget(nodes, ids, logProbs, ranks, options) : judgePath(row, ids, best, ranks),
    };
  }

  // The ids of a translation. The search may have found a text in other pieces than the
  // vocabulary cuts it into.
  encodeTarget(target, nBest) {
    if (typeof target !== "string") {
      return target;
    }
    const text = cleanText(target);
    return nBest.find((best) => best.text === text)?.ids ?? this.target.encode(text);
  }

  // The likeliest piece as a word: { word, logProb }.
  likeliestWord(logits, normalizer) {
    const [piece] = likeliestPieces(logits, 1);
    return { word: splitIntoWords(this.target, [piece]).words[0], logProb: logits[piece] - normalizer };
  }

  // The path of a target, for a search without a tree.
  makePath(ids, logProbs, isBest) {
    let sum = 0;
    return [...ids, EOS].map((piece, i) => {
      sum += logProbs[i];
      const isEnd = i === ids.length;
      const fate = isEnd ? { fate: isBest ? "ended" : "chosen", rank: isBest ? 0 : -1 } : { fate: "open", rank: -1 };
      return { parent: i - 1, step: i + 1, piece, logProb: sum, score: sum / this.penalty(i + 1), ...fate };
    });
  }

  // weights: [H, Tq, Tk] of a layer → the role of each head.
  describeHeads(weights, [numQueries, numKeys], kind) {
    return Array.from({ length: this.settings.num_heads }, (_, head) => {
      const row = (q) => weights.subarray((head * numQueries + q) * numKeys, (head * numQueries + q + 1) * numKeys);
      return describeHead(Array.from({ length: numQueries }, (__, q) => [...row(q)]), kind);
    });
  }

  // The likeliest [id, piece, probability] at each position, best first.
  findAlternatives(logits, normalizers) {
    const { size } = this.target;
    return Array.from({ length: logits.length / size }, (_, i) => {
      const row = logits.subarray(i * size, (i + 1) * size);
      return likeliestPieces(row, NUM_ALTERNATIVES).map((id) => [id, splitIntoWords(this.target, [id]).pieces[0], Math.exp(row[id] - normalizers[i])]);
    });
  }

  // The likeliest words for the place of a word of a translation, the likeliest first:
  // [{ word, probability, ids, isEnd }]; the twin of viewer/word_choices.py.
  listWords({ text, target, word }) {
    const source = this.encodeSentence(text);
    this.checkIds(target);
    const { spans } = splitIntoWords(this.target, target);
    if (!(word in spans)) {
      throw new Error(`Refused: expected the index of one of ${spans.length.toLocaleString("en")} words, got ${word}.`);
    }
    const [begin, end] = spans[word];
    const { size } = this.target;
    const memory = this.model.encode([...source, EOS]);
    const [logits, normalizers, targetState] = this.model.startFrom([BOS, ...target.slice(0, end)], memory);
    const rowAt = (place) => logits.subarray(place * size, (place + 1) * size);
    const isEnd = (ids, piece) => piece === EOS || (ids.length > begin && this.startsWord(piece));
    const choices = [];
    let candidates = []; // { ids, logProb, parent: the hypothesis that it continues }
    let logProb = 0; // of the pieces of the word before a place
    for (let place = begin; place < end; place += 1) {
      const row = rowAt(place);
      const beginning = target.slice(0, place);
      const ofEnd = this.rateEnd(row, normalizers[place], (piece) => isEnd(beginning, piece));
      choices.push(this.makeChoice([...beginning, ofEnd.likeliest], begin, place, logProb + ofEnd.logProb));
      const before = logProb - normalizers[place];
      for (const piece of likeliestPieces(row, NUM_ALTERNATIVES).filter((other) => other !== target[place] && !isEnd(beginning, other))) {
        candidates.push({ ids: [...beginning, piece], logProb: before + row[piece], parent: place });
      }
      logProb = before + row[target[place]];
    }
    logProb += this.rateEnd(rowAt(end), normalizers[end], (piece) => isEnd(target, piece)).logProb;
    const own = this.makeChoice(target.slice(0, end), begin, end, logProb);
    let state = targetState;
    for (let added = 0; candidates.length > 0 && added < MAX_ADDED; added += 1) {
      const [rows, ofRows, next] = this.model.step(candidates.map(({ ids }) => ids[ids.length - 1]), candidates.map(({ parent }) => parent), state);
      state = next;
      const longer = [];
      candidates.forEach(({ ids, logProb: ofIds }, k) => {
        const row = rows.subarray(k * size, (k + 1) * size);
        const [piece] = likeliestPieces(row, 1);
        const ofEnd = this.rateEnd(row, ofRows[k], (other) => isEnd(ids, other));
        // Decoding again would continue the word, unless its end is kept, too.
        const ended = isEnd(ids, piece) ? ids : [...ids, ofEnd.likeliest];
        choices.push(this.makeChoice(ended, begin, ids.length, ofIds + ofEnd.logProb));
        if (!isEnd(ids, piece)) {
          longer.push({ ids: [...ids, piece], logProb: ofIds + row[piece] - ofRows[k], parent: k });
        }
      });
      candidates = longer;
    }
    const words = new Map([[own.word, own]]);
    for (const choice of sortBest(choices, ({ probability }) => probability)) {
      if (words.size < NUM_CHOICES && !words.has(choice.word)) {
        words.set(choice.word, choice);
      }
    }
    return sortBest([...words.values()], ({ probability }) => probability);
  }

  // Whether a piece cannot continue a word.
  startsWord(piece) {
    return piece === EOS || (!FORBIDDEN.includes(piece) && this.target.pieces[piece].startsWith(SPACE_MARK));
  }

  // The log-probability that one of some pieces comes next, and the likeliest of them.
  rateEnd(logits, normalizer, isEnd) {
    let [sum, likeliest] = [0, EOS];
    logits.forEach((logit, piece) => {
      if (isEnd(piece)) {
        sum += Math.exp(logit - normalizer);
        likeliest = logit > logits[likeliest] ? piece : likeliest;
      }
    });
    return { logProb: Math.log(sum), likeliest };
  }

  // A choice whose word has the ids from `begin` to `end`; "" if the translation ends before.
  makeChoice(ids, begin, end, logProb) {
    const isEnd = ids[ids.length - 1] === EOS;
    const word = splitIntoWords(this.target, ids.slice(begin, end)).words.join("");
    return { word, probability: Math.exp(logProb), ids: isEnd ? ids.slice(0, -1) : ids, isEnd };
  }

  // How the log-probability of each target piece changes when the pieces of a source word
  // are replaced by UNK: a row for each word. `pause` is awaited after each word, with the
  // rows so far; it throws if the result is no longer wanted.
  async leaveOutWords({ text, target }, pause = async () => {}) {
    const source = this.encodeSentence(text);
    this.checkIds(target);
    const score = (ids) => this.arena.scope(() => this.scoreTarget(this.model.encode([...ids, EOS]), target));
    const logProbs = score(source);
    const rows = [];
    for (const [start, end] of splitIntoWords(this.source, source).spans) {
      await pause(rows);
      const changed = source.map((id, i) => (i >= start && i < end ? UNK : id));
      rows.push(score(changed).map((logProb, i) => logProb - logProbs[i]));
    }
    return rows;
  }
}

// An error with the code that the service gives it, too: see errors.js.
function refuse(sentence, code, values = []) {
  return Object.assign(new Error(sentence), { code, values });
}

// Replace what is not Unicode; remove display marks; put the text on one line.
function cleanText(text) {
  const valid = text.replace(/\p{Surrogate}/gu, "?").replaceAll("\0", " ").replace(DISPLAY_MARKS, "");
  return valid.split(/[\s\x1c-\x1f\x85]+/).join(" ").trim();
}

function packWeights(layers, heads, [numQueries, numKeys]) {
  const data = new Uint16Array(layers.length * heads * numQueries * numKeys);
  layers.forEach((weights, layer) => data.set(weights.map((weight) => Math.round(weight * WEIGHT_STEPS)), layer * weights.length));
  return { shape: [layers.length, heads, numQueries, numKeys], data };
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
}
