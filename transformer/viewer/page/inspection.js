// The inspection of one translation: JSON → matrices between words or pieces.

const KINDS = {
  encoder: { name: "Encoder", rows: "source", columns: "source" },
  decoder: { name: "Decoder", rows: "targetIn", columns: "targetIn" },
  cross: { name: "Cross", rows: "target", columns: "source" },
};
const STEPS = 65535; // a weight is stored as an integer from 0 to this

class Inspection {
  constructor(data, { text, model, prefix }) {
    this.data = data;
    this.text = text;
    this.model = model;
    this.prefix = prefix;
    this.weights = {};
    this.matrices = new Map();
    this.choices = []; // for the place of each word, if they were asked for
    for (const kind of Object.keys(KINDS)) {
      const weights = data.attention[kind].data; // in base64, or from the model in the page
      this.weights[kind] = typeof weights === "string" ? decodeWeights(weights) : weights;
    }
  }

  layersOf(kind) {
    return this.data.attention[kind].shape[0];
  }

  get heads() {
    return this.data.attention.cross.shape[1];
  }

  labels(side, byWords) {
    return byWords ? this.data[side].words : this.data[side].pieces;
  }

  spans(side, byWords) {
    const { pieces, spans } = this.data[side];
    return byWords ? spans : pieces.map((_, i) => [i, i + 1]);
  }

  // Whether a word or piece of the source is not in the vocabulary.
  isUnknown(i, byWords) {
    const [start, end] = this.spans("source", byWords)[i];
    return this.data.source.pieces.slice(start, end).includes("⟨unk⟩");
  }

  // A matrix { rows, columns, values, rowLabels, columnLabels }; head is a number, or
  // "mean" or "max" over the heads of the layer.
  matrix(kind, layer, head, byWords) {
    const key = [kind, layer, head, byWords].join();
    if (!this.matrices.has(key)) {
      this.matrices.set(key, this.makeMatrix(kind, layer, head, byWords));
    }
    return this.matrices.get(key);
  }

  makeMatrix(kind, layer, head, byWords) {
    const { rows, columns } = KINDS[kind];
    const matrix = {
      rowLabels: this.labels(rows, byWords),
      columnLabels: this.labels(columns, byWords),
      kind,
      isUnknown: (i) => this.isUnknown(i, byWords),
    };
    matrix.rows = matrix.rowLabels.length;
    matrix.columns = matrix.columnLabels.length;
    if (typeof head === "number") {
      matrix.values = this.headValues(kind, layer * this.heads + head, byWords);
    } else {
      matrix.values = this.combineHeads(kind, layer, head, byWords, matrix.rows * matrix.columns);
    }
    matrix.maskReason = this.maskReason(kind, byWords, matrix);
    return matrix;
  }

  combineHeads(kind, layer, how, byWords, size) {
    const values = new Float32Array(size);
    for (let head = 0; head < this.heads; head += 1) {
      const headValues = this.matrix(kind, layer, head, byWords).values;
      for (let i = 0; i < size; i += 1) {
        values[i] = how === "max" ? Math.max(values[i], headValues[i]) : values[i] + headValues[i] / this.heads;
      }
    }
    return values;
  }

  // The attention of one head: the keys of a word are summed, its queries averaged.
  headValues(kind, index, byWords) {
    const [, , queries, keys] = this.data.attention[kind].shape;
    const rows = this.spans(KINDS[kind].rows, byWords);
    const columns = this.spans(KINDS[kind].columns, byWords);
    const values = new Float32Array(rows.length * columns.length);
    const weights = this.weights[kind];
    const offset = index * queries * keys;
    rows.forEach(([first, last], row) => {
      columns.forEach(([from, to], column) => {
        let sum = 0;
        for (let q = first; q < last; q += 1) {
          for (let k = from; k < to; k += 1) {
            sum += weights[offset + q * keys + k];
          }
        }
        values[row * columns.length + column] = sum / (last - first) / STEPS;
      });
    });
    return values;
  }

  // A function of row and column: why there can be no attention; "" if there can. Some
  // dialects attend to padding, so padding with a weight is not masked.
  maskReason(kind, byWords, { values, columns: count }) {
    const rows = this.spans(KINDS[kind].rows, byWords);
    const columns = this.spans(KINDS[kind].columns, byWords);
    const sourceLength = this.data.realSource; // without padding
    return (row, column) => {
      if (kind === "decoder") {
        return columns[column][0] >= rows[row][1] ? say`it comes later in the translation` : "";
      }
      const isPadded = columns[column][0] >= sourceLength && values[row * count + column] === 0;
      return isPadded || (kind === "encoder" && rows[row][0] >= sourceLength) ? say`it is padding` : "";
    };
  }

  role(kind, layer, head) {
    return this.data.roles[kind][layer][head];
  }

  // The probability of each word of the target.
  probabilities(byWords) {
    return this.spans("target", byWords).map(([start, end]) =>
      Math.exp(this.data.logProbs.slice(start, end).reduce((a, b) => a + b, 0)));
  }
}

function decodeWeights(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

// The difference of two matrices; null if their labels differ.
function subtract(matrix, other) {
  const isSame = (a, b) => a.length === b.length && a.every((label, i) => label === b[i]);
  if (!isSame(matrix.rowLabels, other.rowLabels) || !isSame(matrix.columnLabels, other.columnLabels)) {
    return null;
  }
  const values = matrix.values.map((value, i) => other.values[i] - value);
  const maskReason = (row, column) => matrix.maskReason(row, column) && other.maskReason(row, column);
  return { ...matrix, values, maskReason, isDifference: true };
}
