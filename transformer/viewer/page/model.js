// The Transformer, for one sentence: embeddings, encoder blocks, decoder blocks, logits
// (figure 1). It is written like model.py and modules.py, with the same names and the same
// steps, but it only translates: there is no dropout, and no padding to be masked.
//
// A tensor [T, D] is a Float32Array with T rows of D numbers, from the arena: the caller frees
// it. `visible` is the mask: for each query, the indices of the keys that it may attend to. A
// probe looks inside, as in modules.py: of its maps, all by scope name, `weights`, `heads` and
// `sums` receive what the sub-layers compute, and `off` has the heads of each attention whose
// output is zero. Each may be missing.

class Transformer {
  // settings, tensors: from readWeights. kernels: PlainKernels or WasmKernels.
  constructor(settings, tensors, kernels) {
    this.settings = settings;
    this.dialect = settings.dialect;
    this.kernels = kernels;
    this.arena = kernels.arena;
    this.vectors = new Map(); // Float32Array [D]; or [positions, D]
    this.matrices = new Map(); // [out, in]
    for (const [name, tensor] of tensors) {
      const isMatrix = tensor.shape.length === 2 && !name.includes("positional_encoding");
      if (isMatrix) {
        this.matrices.set(name, kernels.load(tensor));
      } else {
        this.vectors.set(name, tensor.data.slice()); // a copy, so that the file can be freed
      }
    }
    this.encodings = new Map(); // of positions
  }

  // The encoder: ids [S] → the keys and values that each decoder block attends to.
  encode(source, probe = {}) {
    const positions = source.map((_, i) => i);
    const visible = source.map(() => positions);
    const x = this.embed(source, "encoder", positions); // [S, D]
    for (let i = 0; i < this.settings.encoder_blocks; i += 1) {
      const scope = `encoder/block_${i}`;
      this.update(x, () => this.attentionSublayer(x, null, null, visible, `${scope}/self_attention`, probe));
      this.update(x, () => this.feedforwardSublayer(x, `${scope}/feedforward`, probe));
    }
    this.update(x, () => this.normalizeStack(x, "encoder"));
    const blocks = Array.from({ length: this.settings.decoder_blocks });
    return { length: source.length, off: probe.off, projected: blocks.map((_, i) => this.keysAndValues(x, `decoder/block_${i}/cross_attention`)) };
  }

  // The decoder on a whole target: ids [T], BOS and the pieces → [logits [T, V] of the next,
  // their normalizers [T]]. A log-probability is the logit minus the normalizer.
  decode(targetIn, memory, probe = {}, caches = []) {
    const positions = targetIn.map((_, i) => i);
    const visible = causalMask(targetIn);
    const states = this.decoderStates(targetIn, positions, memory, caches, visible, probe);
    return this.computeLogits(states, targetIn.length);
  }

  // The state of a search before its first step, with one hypothesis.
  startSearch(memory) {
    return { memory, ancestors: [[]], caches: this.makeCaches() };
  }

  // The same, and the state of a search whose T hypotheses have read 1 … T of the pieces.
  startFrom(targetIn, memory) {
    const caches = this.makeCaches();
    return [...this.decode(targetIn, memory, {}, caches), { memory, ancestors: causalMask(targetIn), caches }];
  }

  makeCaches() {
    return Array.from({ length: this.settings.decoder_blocks }, () => new Cache(this.settings.d_model));
  }

  // One decoding step of K hypotheses: ids [K], their newest pieces; parents [K], the
  // hypotheses of the previous step that they continue → [logits [K, V], their normalizers [K],
  // the next state, in which the logits are valid until its own step].
  // Hypotheses share the keys of the pieces that they have in common: `ancestors` has the
  // indices of the keys in the caches of each. Those of no hypothesis any more are dropped.
  step(ids, parents, { memory, ancestors, caches }) {
    const kept = [...new Set(parents.flatMap((parent) => ancestors[parent]))].sort((a, b) => a - b);
    const index = new Map(kept.map((key, i) => [key, i]));
    const visible = ids.map((_, k) => [...ancestors[parents[k]].map((key) => index.get(key)), kept.length + k]);
    const positions = parents.map((parent) => ancestors[parent].length);
    caches.forEach((cache) => cache.keep(kept));
    const compute = () => this.computeLogits(this.decoderStates(ids, positions, memory, caches, visible, { off: memory.off }), ids.length);
    return [...this.arena.scope(compute), { memory, ancestors: visible, caches }];
  }

  // The decoder's blocks, on a whole target and in each step of a search.
  decoderStates(ids, positions, memory, caches, visible, probe) {
    const all = Array.from({ length: memory.length }, (_, i) => i);
    const visibleSource = ids.map(() => all);
    const x = this.embed(ids, "decoder", positions); // [T, D]
    for (let i = 0; i < this.settings.decoder_blocks; i += 1) {
      const scope = `decoder/block_${i}`;
      this.update(x, () => this.attentionSublayer(x, null, caches[i], visible, `${scope}/self_attention`, probe));
      this.update(x, () => this.attentionSublayer(x, memory.projected[i], null, visibleSource, `${scope}/cross_attention`, probe));
      this.update(x, () => this.feedforwardSublayer(x, `${scope}/feedforward`, probe));
    }
    return this.normalizeStack(x, "decoder");
  }

  // Replace x by what a sub-layer computes of it, and free all else that the sub-layer took.
  update(x, sublayer) {
    x.set(this.arena.scope(sublayer));
  }

  // Multi-head attention, then add and normalize (section 3.2.2). memory: its keys and values,
  // or null for self-attention, whose keys and values go to the cache, if there is one.
  attentionSublayer(inputs, memory, cache, visible, scope, probe) {
    const x = this.normalizeInputs(inputs, scope);
    const queries = this.project(x, `${scope}/q`);
    const own = memory ?? this.keysAndValues(x, scope);
    const present = cache ? cache.append(own) : own;
    const heads = this.settings.num_heads;
    const weights = probe.weights && new Float32Array(heads * visible.length * (present.keys.length / this.settings.d_model));
    const context = this.kernels.attend(queries, present, visible, heads, weights);
    probe.off?.get(scope)?.forEach((head) => clearHead(context, head, heads, visible.length));
    probe.weights?.set(scope, weights); // [H, Tq, Tk]
    probe.heads?.set(scope, mapValues({ queries, ...present, context }, (tensor) => tensor.slice()));
    const outputs = this.dialect.output_projection ? this.dense(context, `${scope}/o`) : context;
    return this.addAndNormalize(inputs, outputs, scope, probe);
  }

  // max(0, x W1 + b1) W2 + b2, then add and normalize (equation 2).
  feedforwardSublayer(inputs, scope, probe) {
    let x = this.normalizeInputs(inputs, scope);
    x = this.dense(x, `${scope}/inner`, 0); // [T, F]
    x = this.dense(x, `${scope}/outer`); // [T, D]
    return this.addAndNormalize(inputs, x, scope, probe);
  }

  keysAndValues(x, scope) {
    return { keys: this.project(x, `${scope}/k`), values: this.project(x, `${scope}/v`) };
  }

  project(x, scope) {
    return this.dense(x, scope, this.dialect.projection_relu ? 0 : -Infinity);
  }

  // max(least, x W + b): [T, in] → [T, out]; some layers have no bias.
  dense(x, scope, least = -Infinity) {
    return this.kernels.product(x, this.matrices.get(`${scope}/kernel`), this.vectors.get(`${scope}/bias`), least);
  }

  normalizeInputs(x, scope) {
    return this.dialect.norm === "before" ? this.normalize(x, `${scope}/ln`) : x;
  }

  addAndNormalize(inputs, outputs, scope, probe) {
    const sum = this.arena.take(inputs.length);
    sum.set(inputs);
    addTo(sum, 0, outputs, 1);
    probe.sums?.set(scope, sum.slice());
    return this.dialect.norm === "after" ? this.normalize(sum, `${scope}/ln`) : sum;
  }

  normalizeStack(x, stack) {
    return this.dialect.final_norm ? this.normalize(x, `${stack}/ln`) : x;
  }

  // (x - mean) / sqrt(variance + epsilon) * gamma + beta, for each row.
  normalize(x, scope) {
    const gamma = this.vectors.get(`${scope}/gamma`);
    const beta = this.vectors.get(`${scope}/beta`);
    const width = gamma.length;
    const y = this.arena.take(x.length);
    for (let start = 0; start < x.length; start += width) {
      let [sum, squares] = [0, 0]; // float64, so that the difference below is exact
      for (let i = start; i < start + width; i += 1) {
        sum += x[i];
        squares += x[i] * x[i];
      }
      const mean = sum / width;
      const variance = Math.max(0, squares / width - mean * mean);
      const scale = 1 / Math.sqrt(variance + this.dialect.norm_epsilon);
      for (let i = 0; i < width; i += 1) {
        y[start + i] = (x[start + i] - mean) * scale * gamma[i] + beta[i];
      }
    }
    return y;
  }

  // Embeddings, times sqrt(D), plus positions (sections 3.4 and 3.5): ids [T] → [T, D].
  embed(ids, stack, positions) {
    const { dialect, settings } = this;
    const width = settings.d_model;
    const table = this.matrices.get(settings.tables[stack]);
    const x = this.arena.take(ids.length * width).fill(0);
    const add = (row, vector, factor) => addTo(x, row * width, vector, factor);
    ids.forEach((id, row) => {
      const isStart = dialect.begins_with_zeros && stack === "decoder" && positions[row] === 0;
      if (!isStart) {
        const [weights, scale] = this.kernels.row(table, id);
        add(row, weights, scale * Math.sqrt(width));
      }
      if (dialect.target_space && stack === "encoder") {
        add(row, this.vectors.get("encoder/target_space"), 1);
      }
      if (!isStart || dialect.positions_on_padding) {
        add(row, this.encodePosition(positions[row], stack), 1);
      }
    });
    return x;
  }

  // The vector of a position: Float32Array [D].
  encodePosition(position, stack) {
    const { dialect, settings } = this;
    const width = settings.d_model;
    if (settings.positions === "learned") {
      const row = Math.min(position, settings.max_positions - 1);
      return this.vectors.get(`${stack}/positional_encoding/lookup_table`).subarray(row * width, (row + 1) * width);
    }
    if (dialect.first_position_padded && !dialect.positions_on_padding && position === 0) {
      return new Float32Array(width);
    }
    if (!this.encodings.has(position)) {
      this.encodings.set(position, POSITIONS[settings.positions](position, width));
    }
    return this.encodings.get(position);
  }

  // States [T, D] → [logits [T, V], normalizers [T]]. With tied embeddings, the table of the
  // target is the output layer.
  computeLogits(states, rows) {
    const table = this.matrices.get(this.settings.tables.decoder);
    const logits = this.dialect.tied_embeddings ? this.kernels.product(states, table) : this.dense(states, "decoder/output");
    return [logits, this.kernels.logSumExp(logits, rows)];
  }
}

// For each position of a target, those that it may attend to.
function causalMask(targetIn) {
  const positions = targetIn.map((_, i) => i);
  return positions.map((position) => positions.slice(0, position + 1));
}

// The keys and values that a search keeps of self-attention: rows [D].
class Cache {
  constructor(width) {
    this.width = width; // D
    this.length = 0; // of what is in use
    this.keys = NO_NUMBERS;
    this.values = NO_NUMBERS;
  }

  // Append rows; return all of them.
  append(rows) {
    const start = this.length;
    this.length += rows.keys.length;
    for (const name of ["keys", "values"]) {
      if (this.length > this[name].length) {
        const longer = new Float32Array(2 * this.length);
        longer.set(this[name]);
        this[name] = longer;
      }
      this[name].set(rows[name], start);
    }
    return { keys: this.keys.subarray(0, this.length), values: this.values.subarray(0, this.length) };
  }

  // Keep only some rows, in ascending order.
  keep(rows) {
    const { width } = this;
    for (const x of [this.keys, this.values]) {
      rows.forEach((row, i) => row > i && x.copyWithin(i * width, row * width, (row + 1) * width));
    }
    this.length = rows.length * width;
  }
}

// Set the columns of a head to zero: x [rows, D].
function clearHead(x, head, heads, rows) {
  const width = x.length / rows;
  const size = width / heads;
  for (let start = head * size; start < x.length; start += width) {
    x.fill(0, start, start + size);
  }
}

// The columns of a head: [T, D] → [T, d_k].
function splitHead(x, width, start, size) {
  const y = new Float32Array((x.length / width) * size);
  for (let row = 0; row < x.length / width; row += 1) {
    y.set(x.subarray(row * width + start, row * width + start + size), row * size);
  }
  return y;
}

// The position encodings of blocks/positions.py: a position and the width → Float32Array [D].
const POSITIONS = {
  interleaved: (position, width) => Float32Array.from({ length: width }, (_, i) => {
    const angle = position * 10000 ** ((-2 * Math.floor(i / 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  }),
  per_channel: (position, width) => Float32Array.from({ length: width }, (_, i) => {
    const angle = position * 10000 ** ((-2 * i) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  }),
  halves: (position, width) => {
    const pairs = Math.floor(width / 2);
    const step = Math.log(10000) / Math.max(1, pairs - 1);
    return Float32Array.from({ length: width }, (_, i) => {
      const angle = position * Math.exp(-step * (i % pairs));
      return i >= 2 * pairs ? 0 : i < pairs ? Math.sin(angle) : Math.cos(angle);
    });
  },
};
