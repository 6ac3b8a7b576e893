// What takes nearly all the time, products, attention and the softmax over the vocabulary: in
// JavaScript, or in WebAssembly.

const NO_NUMBERS = new Float32Array(0);
const BLOCK = 2 ** 18;

// Arrays of float32, from blocks that are used again: browsers free dead arrays late.
class Arena {
  constructor() {
    this.blocks = [];
    this.block = 0;
    this.end = 0; // of what is taken of it
  }

  // An array with any values.
  take(length) {
    while (this.block < this.blocks.length && this.end + length > this.blocks[this.block].length) {
      this.block += 1;
      this.end = 0;
    }
    if (this.block === this.blocks.length) {
      this.blocks.push(new Float32Array(Math.max(BLOCK, length)));
    }
    this.end += length;
    return this.blocks[this.block].subarray(this.end - length, this.end);
  }

  // Run a function, then free what it took; its result is valid until the next array is taken.
  scope(compute) {
    const { block, end } = this;
    try {
      return compute();
    } finally {
      Object.assign(this, { block, end });
    }
  }
}

// Both classes have the same methods, which return arrays of the arena. A matrix is [out, in]:
// { data, shape, scale }.
class PlainKernels {
  constructor() {
    this.arena = new Arena();
  }

  // Prepare a matrix for products.
  load(matrix) {
    return matrix;
  }

  // x W^T, times the scales, plus a bias or null; outputs are at least `least`, which is 0 for
  // ReLU: Float32Array of rows [in] → of rows [out].
  product(x, matrix, bias = null, least = -Infinity) {
    const [outs, ins] = matrix.shape;
    const { data, scale } = matrix;
    const rows = x.length / ins;
    const y = this.arena.take(rows * outs);
    for (let row = 0; row < rows; row += 1) {
      for (let out = 0; out < outs; out += 1) {
        let sum = 0;
        for (let i = 0; i < ins; i += 1) {
          sum += x[row * ins + i] * data[out * ins + i];
        }
        y[row * outs + out] = Math.max(least, sum * (scale ? scale[out] : 1) + (bias ? bias[out] : 0));
      }
    }
    return y;
  }

  // A row of a matrix, such as the vector of a piece: [weights [in], their scale].
  row(matrix, index) {
    const [, ins] = matrix.shape;
    return [matrix.data.subarray(index * ins, (index + 1) * ins), matrix.scale ? matrix.scale[index] : 1];
  }

  // softmax(Q K^T / sqrt(d_k)) V for each head (equation 1): queries [Tq, D], keys and values
  // [Tk, D]; visible: for each query, the keys that it may attend to → context [Tq, D].
  // weights: [H, Tq, Tk] of zeros, to be filled; or null.
  attend(queries, { keys, values }, visible, heads, weights) {
    const width = queries.length / visible.length;
    const size = width / heads; // d_k
    const numKeys = keys.length / width;
    const context = this.arena.take(queries.length).fill(0);
    for (let head = 0; head < heads; head += 1) {
      visible.forEach((visibleKeys, q) => {
        const columns = (x, row) => x.subarray(row * width + head * size, row * width + (head + 1) * size);
        const logits = visibleKeys.map((key) => dotProduct(columns(queries, q), columns(keys, key)) / Math.sqrt(size));
        const normalizer = logSumExp(logits);
        logits.forEach((logit, i) => {
          const weight = Math.exp(logit - normalizer);
          addTo(context, q * width + head * size, columns(values, visibleKeys[i]), weight);
          if (weights) {
            weights[(head * visible.length + q) * numKeys + visibleKeys[i]] = weight;
          }
        });
      });
    }
    return context;
  }

  // log(sum(exp(x))) of each row of x [T, V] → [T].
  logSumExp(x, rows) {
    const size = x.length / rows;
    return Array.from({ length: rows }, (_, row) => logSumExp(x.subarray(row * size, (row + 1) * size)));
  }
}

// kernels.wat, assembled. The matrices are in the memory of WebAssembly, int8 ones as int8.
// What is computed is copied there, and the result is copied back. The sides of a matrix are
// padded with zeros to the multiples that the kernels take.
//
// Products with int8 matrices are of integers, which is faster: the inputs are rounded to
// int16. That changes an output far less than rounding the weights to int8 did.
class WasmKernels extends PlainKernels {
  // bytes: the assembled file.
  constructor(bytes) {
    super();
    this.kernels = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
    this.end = 16; // of what the memory holds
  }

  load({ data, shape: [outs, ins], scale }) {
    const [paddedOuts, paddedIns] = [roundUp(outs, 4), roundUp(ins, 16)];
    const isInt8 = data instanceof Int8Array;
    const matrix = { outs, ins, paddedOuts, paddedIns, isInt8, address: this.allocate(paddedOuts * paddedIns * data.BYTES_PER_ELEMENT) };
    const memory = this.view(data.constructor, matrix.address, paddedOuts * paddedIns);
    copyRows(data, ins, memory, paddedIns);
    if (isInt8) {
      matrix.scales = this.allocate(4 * paddedOuts);
      this.view(Float32Array, matrix.scales, outs).set(scale);
    }
    return matrix;
  }

  product(x, { outs, ins, paddedOuts, paddedIns, isInt8, address, scales }, bias = null, least = -Infinity) {
    const rows = x.length / ins;
    const paddedRows = rows % 5 > 2 ? roundUp(rows, 5) : rows;
    const y = this.arena.take(rows * outs);
    const { end, kernels } = this;
    const inputs = this.allocate(4 * paddedRows * paddedIns);
    const biases = this.allocate(4 * paddedOuts);
    const outputs = this.allocate(4 * 5 * paddedOuts); // of five rows
    const integers = this.allocate(2 * 5 * paddedIns);
    const rowScales = this.allocate(4 * 5);
    copyRows(x, ins, this.view(Float32Array, inputs, paddedRows * paddedIns), paddedIns);
    copyRows(bias ?? NO_NUMBERS, outs, this.view(Float32Array, biases, paddedOuts), paddedOuts);
    const results = this.view(Float32Array, outputs, 5 * paddedOuts);
    const limit = Math.min(32767, Math.floor((2 ** 31 - 1) / (128 * paddedIns))); // 128 * limit * ins has to fit into int32
    for (let row = 0; row < paddedRows;) {
      const count = paddedRows - row > 2 ? 5 : 1;
      const start = inputs + 4 * row * paddedIns;
      if (isInt8) {
        for (let i = 0; i < count; i += 1) {
          kernels.quantize(start + 4 * i * paddedIns, integers + 16 * i, paddedIns, limit, rowScales + 4 * i, 16 * count);
        }
        const kernel = count === 5 ? kernels.five_rows_int8 : kernels.one_row_int8;
        kernel(integers, address, biases, outputs, paddedOuts, paddedIns, least, scales, rowScales);
      } else {
        const kernel = count === 5 ? kernels.five_rows_float32 : kernels.one_row_float32;
        kernel(start, address, biases, outputs, paddedOuts, paddedIns, least);
      }
      copyRows(results, paddedOuts, y.subarray(row * outs, (row + count) * outs), outs);
      row += count;
    }
    this.end = end; // free
    return y;
  }

  row({ ins, paddedIns, isInt8, address, scales }, index) {
    return isInt8
      ? [this.view(Int8Array, address + index * paddedIns, ins), this.view(Float32Array, scales + 4 * index, 1)[0]]
      : [this.view(Float32Array, address + 4 * index * paddedIns, ins), 1];
  }

  attend(queries, { keys, values }, visible, heads, weights) {
    const width = queries.length / visible.length;
    const size = width / heads;
    if (size % 8) {
      return super.attend(queries, { keys, values }, visible, heads, weights);
    }
    const { end } = this;
    const result = this.arena.take(queries.length).fill(0);
    const [query, key, value, context] = [queries, keys, values, result].map((x) => this.store(x));
    const longest = roundUp(Math.max(...visible.map(({ length }) => length)), 4);
    const [indices, rows] = [this.allocate(4 * longest), this.allocate(4 * heads * longest)];
    visible.forEach((visibleKeys, q) => {
      const count = visibleKeys.length;
      const padded = roundUp(count, 4);
      const keyRows = this.view(Int32Array, indices, padded);
      keyRows.set(visibleKeys);
      keyRows.fill(visibleKeys[0], count);
      this.kernels.attend(query + 4 * q * width, key, value, indices, rows, context + 4 * q * width, count, padded, heads, size);
      for (let head = 0; weights && head < heads; head += 1) {
        const start = (head * visible.length + q) * (keys.length / width);
        this.view(Float32Array, rows + 4 * head * padded, count).forEach((weight, i) => { weights[start + visibleKeys[i]] = weight; });
      }
    });
    this.end = end; // free
    result.set(this.view(Float32Array, context, queries.length));
    return result;
  }

  logSumExp(x, rows) {
    const size = x.length / rows;
    const padded = roundUp(size, 4);
    const { end } = this;
    const [row, scratch] = [this.allocate(4 * padded), this.allocate(4 * padded)];
    const memory = this.view(Float32Array, row, padded).fill(-Infinity);
    const normalizers = Array.from({ length: rows }, (_, i) => {
      memory.set(x.subarray(i * size, (i + 1) * size));
      const largest = this.kernels.largest(row, padded);
      return largest + Math.log(this.kernels.exponentials(row, scratch, padded, largest));
    });
    this.end = end; // free
    return normalizers;
  }

  // Store float32 numbers; return their address.
  store(numbers) {
    const address = this.allocate(numbers.byteLength);
    this.view(Float32Array, address, numbers.length).set(numbers);
    return address;
  }

  // The address of bytes that are free; `end` is set back when they are no longer needed.
  allocate(bytes) {
    const address = this.end;
    this.end = roundUp(address + bytes, 16);
    const { memory } = this.kernels;
    const missing = this.end - memory.buffer.byteLength;
    if (missing > 0) {
      memory.grow(Math.ceil(missing / 65536));
    }
    return address;
  }

  // Numbers in the memory, until it grows.
  view(Type, address, length) {
    return new Type(this.kernels.memory.buffer, address, length);
  }
}

// Copy rows into longer or shorter ones. What is longer is filled with zeros.
function copyRows(from, fromWidth, to, toWidth) {
  if (fromWidth === toWidth) {
    to.set(from.subarray(0, to.length));
    to.fill(0, from.length);
    return;
  }
  to.fill(0);
  const width = Math.min(fromWidth, toWidth);
  for (let row = 0; row < Math.min(from.length / fromWidth, to.length / toWidth); row += 1) {
    to.set(from.subarray(row * fromWidth, row * fromWidth + width), row * toWidth);
  }
}

function roundUp(number, multiple) {
  return Math.ceil(number / multiple) * multiple;
}

function dotProduct(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i += 1) {
    sum += x[i] * y[i];
  }
  return sum;
}

// Add a vector, times a factor, to the numbers of x from `start` on.
function addTo(x, start, vector, factor) {
  for (let i = 0; i < vector.length; i += 1) {
    x[start + i] += vector[i] * factor;
  }
}

function logSumExp(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b));
  return largest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
}

// The fastest kernels that this browser can run. file: the assembled ones.
function chooseKernels(file) {
  try {
    return new WasmKernels(file);
  } catch { // no WebAssembly, or none with SIMD
    return new PlainKernels();
  }
}
