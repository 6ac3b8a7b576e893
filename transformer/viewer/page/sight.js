// What can be seen of one translation: packed JSON → matrices between words or pieces.

const KINDS = {
  encoder: { name: "Encoder", rows: "source", columns: "source" },
  decoder: { name: "Decoder", rows: "targetIn", columns: "targetIn" },
  cross: { name: "Cross", rows: "target", columns: "source" },
};
const STEPS = 65535; // a weight is stored as an integer from 0 to this

class Sight {
  constructor(pack, { text, model, prefix }) {
    this.pack = pack;
    this.text = text;
    this.model = model;
    this.prefix = prefix;
    this.weights = {};
    this.made = new Map();
    for (const kind of Object.keys(KINDS)) {
      this.weights[kind] = unpacked(pack.attention[kind].data);
    }
  }

  layersOf(kind) {
    return this.pack.attention[kind].shape[0];
  }

  get heads() {
    return this.pack.attention.cross.shape[1];
  }

  labels(side, byWords) {
    return byWords ? this.pack[side].words : this.pack[side].pieces;
  }

  spans(side, byWords) {
    const { pieces, spans } = this.pack[side];
    return byWords ? spans : pieces.map((_, i) => [i, i + 1]);
  }

  // A matrix { rows, columns, values, rowLabels, columnLabels }; head is a number, or
  // "mean" or "max" over the heads of the layer.
  matrix(kind, layer, head, byWords) {
    const key = [kind, layer, head, byWords].join();
    if (!this.made.has(key)) {
      this.made.set(key, this.makeMatrix(kind, layer, head, byWords));
    }
    return this.made.get(key);
  }

  makeMatrix(kind, layer, head, byWords) {
    const { rows, columns } = KINDS[kind];
    const made = {
      rowLabels: this.labels(rows, byWords),
      columnLabels: this.labels(columns, byWords),
      kind,
    };
    made.rows = made.rowLabels.length;
    made.columns = made.columnLabels.length;
    if (typeof head === "number") {
      made.values = this.joined(kind, layer * this.heads + head, byWords);
    } else {
      made.values = this.overHeads(kind, layer, head, byWords, made.rows * made.columns);
    }
    made.hidden = this.hidden(kind, byWords, made);
    return made;
  }

  overHeads(kind, layer, how, byWords, size) {
    const values = new Float32Array(size);
    for (let head = 0; head < this.heads; head += 1) {
      const other = this.matrix(kind, layer, head, byWords).values;
      for (let i = 0; i < size; i += 1) {
        values[i] = how === "max" ? Math.max(values[i], other[i]) : values[i] + other[i] / this.heads;
      }
    }
    return values;
  }

  // Attention of one head: keys of a word are summed, its queries averaged.
  joined(kind, number, byWords) {
    const [, , queries, keys] = this.pack.attention[kind].shape;
    const rows = this.spans(KINDS[kind].rows, byWords);
    const columns = this.spans(KINDS[kind].columns, byWords);
    const values = new Float32Array(rows.length * columns.length);
    const weights = this.weights[kind];
    const start = number * queries * keys;
    rows.forEach(([first, last], row) => {
      columns.forEach(([from, to], column) => {
        let sum = 0;
        for (let q = first; q < last; q += 1) {
          for (let k = from; k < to; k += 1) {
            sum += weights[start + q * keys + k];
          }
        }
        values[row * columns.length + column] = sum / (last - first) / STEPS;
      });
    });
    return values;
  }

  // A function of row and column: why there is no attention, or an empty text. Some
  // dialects attend to padding: then there is some.
  hidden(kind, byWords, { values, columns: count }) {
    const rows = this.spans(KINDS[kind].rows, byWords);
    const columns = this.spans(KINDS[kind].columns, byWords);
    const real = this.pack.realSource;
    return (row, column) => {
      if (kind === "decoder") {
        return columns[column][0] >= rows[row][1] ? "in the future: not written yet" : "";
      }
      const isPadded = columns[column][0] >= real && values[row * count + column] === 0;
      return isPadded || (kind === "encoder" && rows[row][0] >= real) ? "padding: there is no word" : "";
    };
  }

  role(kind, layer, head) {
    return this.pack.roles[kind][layer][head];
  }

  // The probability of each word of the target.
  probabilities(byWords) {
    return this.spans("target", byWords).map(([begin, end]) =>
      Math.exp(this.pack.logProbs.slice(begin, end).reduce((a, b) => a + b, 0)));
  }
}

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

// The difference of two matrices of the same labels; null where they have others.
function difference(one, other) {
  const same = (a, b) => a.length === b.length && a.every((label, i) => label === b[i]);
  if (!same(one.rowLabels, other.rowLabels) || !same(one.columnLabels, other.columnLabels)) {
    return null;
  }
  const values = one.values.map((value, i) => other.values[i] - value);
  const hidden = (row, column) => one.hidden(row, column) && other.hidden(row, column);
  return { ...one, values, hidden, isDifference: true };
}
