// Inside an attention head, and the model without it: the twin of viewer/heads.py.

const SUBLAYERS = ["self_attention", "cross_attention", "feedforward"]; // of a decoder block

// The scope name of an attention.
function attentionScope(kind, layer) {
  const stack = kind === "encoder" ? "encoder" : "decoder";
  return `${stack}/block_${layer}/${kind === "cross" ? "cross" : "self"}_attention`;
}

// What a head computes while the model reads a target: queries, keys and values [T, d_k]; and
// `alternatives`: for each target piece, [id, piece, logit, share of the head in the logit]
// of the likeliest. Heads of the encoder have none: they act on the logits through the memory.
function inspectHead(engine, { text, target, kind, layer, head }) {
  const source = engine.encodeSentence(text);
  engine.checkIds(target);
  const probe = { heads: new Map(), sums: new Map() };
  const memory = engine.model.encode([...source, EOS], probe);
  const [logits, normalizers] = engine.model.decode([BOS, ...target], memory, probe);
  const scope = attentionScope(kind, layer);
  const { d_model: width, num_heads: heads } = engine.settings;
  const size = width / heads; // d_k
  const { queries, keys, values, context } = probe.heads.get(scope);
  const columns = (x) => ({ shape: [x.length / width, size], data: splitHead(x, width, head * size, size) });
  let alternatives = [];
  if (kind !== "encoder") {
    const states = carryToOutput(engine.model, projectHead(engine.model, context, head, scope), scope, probe.sums);
    alternatives = engine.findAlternatives(logits, normalizers).map((pieces, row) => pieces.map(([id, piece]) => {
      const state = states.subarray(row * width, (row + 1) * width);
      return [id, piece, logits[row * engine.target.size + id], dotProduct(state, outputWeights(engine.model, id))];
    }));
  }
  return { queries: columns(queries), keys: columns(keys), values: columns(values), alternatives };
}

// What a head adds to the inputs of its sub-layer: context [T, D] of all heads → [T, D].
function projectHead(model, context, head, scope) {
  const { d_model: width, num_heads: heads } = model.settings;
  const alone = context.slice();
  for (let other = 0; other < heads; other += 1) {
    if (other !== head) {
      clearHead(alone, other, heads, context.length / width);
    }
  }
  return model.dialect.output_projection ? model.kernels.product(alone, model.matrices.get(`${scope}/o/kernel`)) : alone;
}

// What is left of the outputs of a sub-layer in the last states, [T, D] → [T, D]: the
// residual connections carry it there. The normalizations between are frozen: each subtracts
// the mean of the vector, and divides by the deviation that the whole sum has.
function carryToOutput(model, outputs, scope, sums) {
  const blocks = Array.from({ length: model.settings.decoder_blocks }, (_, i) => `decoder/block_${i}`);
  const scopes = blocks.flatMap((block) => SUBLAYERS.map((name) => `${block}/${name}`));
  let states = outputs;
  if (model.dialect.norm === "after") {
    for (const later of scopes.slice(scopes.indexOf(scope))) {
      states = normalizeFrozen(model, states, sums.get(later), `${later}/ln/gamma`);
    }
  }
  return model.dialect.final_norm ? normalizeFrozen(model, states, sums.get(scopes.at(-1)), "decoder/ln/gamma") : states;
}

function normalizeFrozen(model, x, whole, name) {
  const gamma = model.vectors.get(name);
  const width = gamma.length;
  const y = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += width) {
    const row = x.subarray(start, start + width);
    const mean = average(row);
    const deviation = Math.sqrt(variance(whole.subarray(start, start + width)) + model.dialect.norm_epsilon);
    row.forEach((value, i) => { y[start + i] = (value - mean) / deviation * gamma[i]; });
  }
  return y;
}

function average(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function variance(numbers) {
  const mean = average(numbers);
  return numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0) / numbers.length;
}

// The weights [D] of a piece in the output layer.
function outputWeights(model, id) {
  const name = model.dialect.tied_embeddings ? model.settings.tables.decoder : "decoder/output/kernel";
  const [weights, scale] = model.kernels.row(model.matrices.get(name), id);
  return Float32Array.from(weights, (weight) => weight * scale);
}

// Translate with heads, [kind, layer, head] each, switched off: their output is zero. With a
// target, `score` is that of the target.
function ablate(engine, { text, heads, prefix = [], target = null }) {
  const source = engine.encodeSentence(text);
  engine.checkIds(prefix);
  const off = new Map();
  for (const [kind, layer, head] of heads) {
    const scope = attentionScope(kind, layer);
    off.set(scope, [...(off.get(scope) ?? []), head]);
  }
  const { nBest } = engine.search(source, prefix, off);
  let score = null;
  if (target) {
    engine.checkIds(target);
    const memory = engine.model.encode([...source, EOS], { off });
    const logProbs = engine.scoreTarget(memory, target, off);
    score = addUp(logProbs) / engine.penalty(logProbs.length);
  }
  return { nBest, score };
}

// The change of the log-probability of a target without each head alone: kind → layer → head.
// `pause` is as in leaveOutWords.
async function ablateEach(engine, { text, target }, pause = async () => {}) {
  const source = engine.encodeSentence(text);
  engine.checkIds(target);
  const { arena, model, settings } = engine;
  const encode = (off) => model.encode([...source, EOS], { off });
  const whole = arena.scope(() => copyMemory(encode())); // kept in pauses, in which others use the arena
  const logProb = (off, isEncoder) => arena.scope(() => addUp(engine.scoreTarget(isEncoder ? encode(off) : whole, target, off)));
  const expected = logProb(new Map(), false);
  const layers = { encoder: settings.encoder_blocks, decoder: settings.decoder_blocks, cross: settings.decoder_blocks };
  const changes = {};
  for (const [kind, count] of Object.entries(layers)) {
    changes[kind] = [];
    for (let layer = 0; layer < count; layer += 1) {
      const row = [];
      for (let head = 0; head < settings.num_heads; head += 1) {
        await pause();
        const off = new Map([[attentionScope(kind, layer), [head]]]);
        row.push(logProb(off, kind === "encoder") - expected);
      }
      changes[kind].push(row);
    }
  }
  return changes;
}

// What the encoder has computed, in arrays of its own.
function copyMemory(memory) {
  return { ...memory, projected: memory.projected.map(({ keys, values }) => ({ keys: keys.slice(), values: values.slice() })) };
}

function addUp(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}
