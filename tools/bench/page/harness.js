// A worker that translates with one of the models. The page sends the model, then lines; the
// answer to a line is { ids, milliseconds }.

// What depends on the position in an embedding; model.js has the formulas.
class Positions {
  constructor(settings, tensors) {
    const isUsed = (name) => name.includes("positional_encoding") || name === "encoder/target_space";
    const used = [...tensors].filter(([name]) => isUsed(name)); // copied, so that the file can go
    const vectors = used.map(([name, { data, shape }]) => [name, { data: data.slice(), shape }]);
    this.twin = new Transformer(settings, new Map(vectors), new PlainKernels());
  }

  // Whether the embeddings count, and the vectors to be added: [positions, D].
  embed(stack, positions) {
    const { dialect, settings } = this.twin;
    const width = settings.d_model;
    const isPiece = !(dialect.begins_with_zeros && stack === "decoder" && positions[0] === 0);
    const vectors = new Float32Array(positions.length * width);
    const space = dialect.target_space && stack === "encoder" ? this.twin.vectors.get("encoder/target_space") : new Float32Array(width);
    positions.forEach((position, row) => {
      const vector = isPiece || dialect.positions_on_padding ? this.twin.encodePosition(position, stack) : new Float32Array(width);
      vectors.set(vector.map((value, i) => value + space[i]), row * width);
    });
    return { isPiece: Number(isPiece), vectors };
  }
}

// The mask of a step, as a bias: [K, Tk].
function makeBias(visible, numKeys) {
  const bias = new Float32Array(visible.length * numKeys).fill(-1e9);
  visible.forEach((keys, k) => keys.forEach((key) => { bias[k * numKeys + key] = 0; }));
  return bias;
}

function decodeBase64(text) {
  return Uint8Array.fromBase64(text);
}

let model;
let settings;
let vocabulary;

const METHODS = {
  async start({ weights, ...data }) {
    const file = decodeBase64(weights);
    const { settings: own, tensors } = readWeights(file);
    settings = own;
    const { source, target } = settings.vocabularies;
    vocabulary = new Vocabulary(tensors.get(source).data);
    [source, target].forEach((name) => tensors.delete(name));
    model = await makeModel({ ...data, file, settings, tensors });
  },

  async translate(line) {
    const start = performance.now();
    const source = vocabulary.encode(line);
    const limit = source.length + 1 + settings.max_extra_length;
    const penalty = (length) => lengthPenalty(length, settings.length_penalty, settings.length_penalty_form);
    const options = { beamSize: settings.num_hypotheses, penalty, prefix: [] };
    const { hypotheses } = await search(model, await model.encode([...source, EOS]), limit, options);
    const milliseconds = performance.now() - start;
    return { ids: hypotheses.map(({ ids }) => ids.filter((id) => id !== EOS)), milliseconds };
  },
};

addEventListener("message", async ({ data: [method, argument] }) => {
  try {
    postMessage({ result: await METHODS[method](argument) });
  } catch (error) {
    postMessage({ error: `${error.stack}` });
  }
});
