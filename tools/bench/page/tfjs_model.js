// The model in TensorFlow.js, with the methods that search.js needs: the formulas of model.js
// in its operations, on its WebAssembly backend.

async function makeModel({ library, wasm, settings, tensors }) {
  (0, eval)(library); // tf-core and the backend: they make `tf`
  const address = URL.createObjectURL(new Blob([decodeBase64(wasm)], { type: "application/wasm" }));
  const files = ["tfjs-backend-wasm.wasm", "tfjs-backend-wasm-simd.wasm", "tfjs-backend-wasm-threaded-simd.wasm"];
  tf.wasm.setWasmPaths(Object.fromEntries(files.map((name) => [name, address]))); // the second is used
  tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", false);
  await tf.setBackend("wasm");
  return new TfjsModel(settings, tensors);
}

class TfjsModel {
  constructor(settings, tensors) {
    this.settings = settings;
    this.dialect = settings.dialect;
    this.positions = new Positions(settings, tensors);
    this.weights = new Map([...tensors].map(([name, { data, shape }]) => [name, tf.tensor(data, shape)]));
  }

  encode(source) {
    return tf.tidy(() => {
      let x = this.embed(source, "encoder", source.map((_, i) => i));
      for (let i = 0; i < this.settings.encoder_blocks; i += 1) {
        const scope = `encoder/block_${i}`;
        x = this.sublayer(x, `${scope}/self_attention`, (y, name) => this.attend(y, this.keysAndValues(y, name), name, null));
        x = this.feedforward(x, `${scope}/feedforward`);
      }
      x = this.normalizeStack(x, "encoder");
      return Array.from({ length: this.settings.decoder_blocks }, (_, i) => this.keysAndValues(x, `decoder/block_${i}/cross_attention`));
    });
  }

  startSearch(memory) {
    return { memory, past: null, length: 0, ancestors: [[]], numKeys: 0 };
  }

  step(ids, parents, { memory, past, length, ancestors, numKeys }) {
    const visible = ids.map((_, k) => [...ancestors[parents[k]], numKeys + k]);
    const total = numKeys + ids.length;
    const { logits, normalizers, present } = tf.tidy(() => {
      const bias = tf.tensor(makeBias(visible, total), [1, ids.length, total]);
      const keysAndValues = [];
      let x = this.embed(ids, "decoder", [length]);
      for (let i = 0; i < this.settings.decoder_blocks; i += 1) {
        const scope = `decoder/block_${i}`;
        x = this.sublayer(x, `${scope}/self_attention`, (y, name) => {
          const newest = this.keysAndValues(y, name);
          keysAndValues.push(past ? newest.map((tensor, j) => tf.concat([past[i][j], tensor], 1)) : newest);
          return this.attend(y, keysAndValues[i], name, bias);
        });
        x = this.sublayer(x, `${scope}/cross_attention`, (y, name) => this.attend(y, memory[i], name, null));
        x = this.feedforward(x, `${scope}/feedforward`);
      }
      const outputs = this.computeLogits(this.normalizeStack(x, "decoder"));
      return { logits: outputs, normalizers: tf.logSumExp(outputs, 1), present: keysAndValues };
    });
    tf.dispose(past);
    const [data, ofRows] = [logits.dataSync(), normalizers.dataSync()];
    tf.dispose([logits, normalizers]);
    return [data, ofRows, { memory, past: present, length: length + 1, ancestors: visible, numKeys: total }];
  }

  embed(ids, stack, positions) {
    const width = this.settings.d_model;
    const { isPiece, vectors } = this.positions.embed(stack, positions);
    const x = tf.gather(this.weights.get(this.settings.tables[stack]), tf.tensor1d(ids, "int32"));
    return tf.add(tf.mul(x, isPiece * Math.sqrt(width)), tf.tensor(vectors, [positions.length, width]));
  }

  sublayer(inputs, scope, compute) {
    const x = this.dialect.norm === "before" ? this.normalize(inputs, `${scope}/ln`) : inputs;
    const sum = tf.add(inputs, compute(x, scope));
    return this.dialect.norm === "after" ? this.normalize(sum, `${scope}/ln`) : sum;
  }

  feedforward(inputs, scope) {
    return this.sublayer(inputs, scope, (x) => this.dense(tf.relu(this.dense(x, `${scope}/inner`)), `${scope}/outer`));
  }

  // [T, D] → [H, T, d].
  project(x, scope) {
    const outputs = this.dense(x, scope);
    const { num_heads: heads, d_model: width } = this.settings;
    return tf.transpose(tf.reshape(this.dialect.projection_relu ? tf.relu(outputs) : outputs, [-1, heads, width / heads]), [1, 0, 2]);
  }

  keysAndValues(x, scope) {
    return [this.project(x, `${scope}/k`), this.project(x, `${scope}/v`)];
  }

  attend(x, [keys, values], scope, bias) {
    const { num_heads: heads, d_model: width } = this.settings;
    const logits = tf.div(tf.matMul(this.project(x, `${scope}/q`), keys, false, true), Math.sqrt(width / heads));
    const context = tf.matMul(tf.softmax(bias ? tf.add(logits, bias) : logits), values);
    const joined = tf.reshape(tf.transpose(context, [1, 0, 2]), [-1, width]);
    return this.dialect.output_projection ? this.dense(joined, `${scope}/o`) : joined;
  }

  dense(x, scope) {
    const outputs = tf.matMul(x, this.weights.get(`${scope}/kernel`), false, true);
    return this.weights.has(`${scope}/bias`) ? tf.add(outputs, this.weights.get(`${scope}/bias`)) : outputs;
  }

  normalize(x, scope) {
    const { mean, variance } = tf.moments(x, 1, true);
    const normalized = tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, this.dialect.norm_epsilon)));
    return tf.add(tf.mul(normalized, this.weights.get(`${scope}/gamma`)), this.weights.get(`${scope}/beta`));
  }

  normalizeStack(x, stack) {
    return this.dialect.final_norm ? this.normalize(x, `${stack}/ln`) : x;
  }

  computeLogits(states) {
    return this.dialect.tied_embeddings ? tf.matMul(states, this.weights.get(this.settings.tables.decoder), false, true) : this.dense(states, "decoder/output");
  }
}
