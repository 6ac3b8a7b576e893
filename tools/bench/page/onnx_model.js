// The model in onnxruntime-web, with the methods that search.js needs. The graphs, from
// onnx_graphs.py, have the formulas; here is what is given to them.

async function makeModel({ file, library, wasm, graphs, settings, tensors }) {
  const ort = await import(URL.createObjectURL(new Blob([library], { type: "text/javascript" })));
  Object.assign(ort.env.wasm, { wasmBinary: decodeBase64(wasm).buffer, numThreads: 1 });
  const externalData = [{ path: "weights", data: file }];
  const [encoder, decoder] = [
    await ort.InferenceSession.create(decodeBase64(graphs.encoder), { externalData }),
    await ort.InferenceSession.create(decodeBase64(graphs.step), { externalData }),
  ];
  return new OnnxModel(ort.Tensor, encoder, decoder, settings, tensors);
}

class OnnxModel {
  constructor(Tensor, encoder, decoder, settings, tensors) {
    Object.assign(this, { Tensor, encoder, decoder, settings });
    this.positions = new Positions(settings, tensors);
  }

  floats(data, shape) {
    return new this.Tensor("float32", data, shape);
  }

  // The inputs of an embedding: ids, whether they count, and what depends on the position.
  embedding(ids, stack, positions) {
    const { isPiece, vectors } = this.positions.embed(stack, positions);
    return {
      ids: new this.Tensor("int64", BigInt64Array.from(ids, BigInt), [ids.length]),
      is_piece: this.floats(Float32Array.of(isPiece), [1]),
      positions: this.floats(vectors, [positions.length, this.settings.d_model]),
    };
  }

  async encode(source) {
    return this.encoder.run(this.embedding(source, "encoder", source.map((_, i) => i)));
  }

  startSearch(memory) {
    const { num_heads: heads, d_model: width, decoder_blocks: blocks } = this.settings;
    const past = {};
    for (let i = 0; i < blocks; i += 1) {
      past[`keys_${i}`] = this.floats(new Float32Array(0), [heads, width / heads, 0]);
      past[`values_${i}`] = this.floats(new Float32Array(0), [heads, 0, width / heads]);
    }
    return { memory, past, length: 0, ancestors: [[]], numKeys: 0 };
  }

  async step(ids, parents, { memory, past, length, ancestors, numKeys }) {
    const visible = ids.map((_, k) => [...ancestors[parents[k]], numKeys + k]);
    const total = numKeys + ids.length;
    const bias = this.floats(makeBias(visible, total), [ids.length, total]);
    const inputs = { ...this.embedding(ids, "decoder", [length]), bias, ...memory, ...past };
    const { logits, normalizers, ...next } = await this.decoder.run(inputs);
    const present = Object.fromEntries(Object.entries(next).map(([name, tensor]) => [name.replace("next_", ""), tensor]));
    return [logits.data, normalizers.data, { memory, past: present, length: length + 1, ancestors: visible, numKeys: total }];
  }
}
