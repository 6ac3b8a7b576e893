// Matrix products, which take nearly all the time: in JavaScript, or in WebAssembly.

// Both classes have the same methods. A matrix is [out, in]: { data, shape, scale }.
class PlainKernels {
  // Prepare a matrix for products.
  load(matrix) {
    return matrix;
  }

  // x W^T, times the scales: Float32Array of rows [in] → of rows [out].
  product(x, matrix) {
    const [outs, ins] = matrix.shape;
    const { data, scale } = matrix;
    const rows = x.length / ins;
    const y = new Float32Array(rows * outs);
    for (let row = 0; row < rows; row += 1) {
      for (let out = 0; out < outs; out += 1) {
        let sum = 0;
        for (let i = 0; i < ins; i += 1) {
          sum += x[row * ins + i] * data[out * ins + i];
        }
        y[row * outs + out] = scale ? sum * scale[out] : sum;
      }
    }
    return y;
  }

  // x W^T for any W: Float32Array x [rows, in], W [out, in] → [rows, out].
  multiply(x, data, ins) {
    return this.product(x, { data, shape: [data.length / ins, ins] });
  }

  // A row of a matrix, such as the vector of a piece: Float32Array [in].
  row(matrix, index) {
    const [, ins] = matrix.shape;
    const factor = matrix.scale ? matrix.scale[index] : 1;
    return Float32Array.from(matrix.data.subarray(index * ins, (index + 1) * ins), (weight) => weight * factor);
  }
}

// kernels.wat, assembled. The matrices are in the memory of WebAssembly, int8 ones as int8;
// a product copies its inputs there, and copies its result back. The sides of a matrix are
// padded with zeros to the multiples that the kernels take.
class WasmKernels {
  // bytes: the assembled file.
  constructor(bytes) {
    this.kernels = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
    this.end = 16; // of what the memory holds
  }

  load({ data, shape: [outs, ins], scale }) {
    const isInt8 = data instanceof Int8Array;
    const [paddedOuts, paddedIns] = [roundUp(outs, 4), roundUp(ins, 8)];
    let padded = data;
    if (outs !== paddedOuts || ins !== paddedIns) {
      padded = new data.constructor(paddedOuts * paddedIns);
      for (let out = 0; out < outs; out += 1) {
        padded.set(data.subarray(out * ins, (out + 1) * ins), out * paddedIns);
      }
    }
    const scales = new Float32Array(paddedOuts).fill(1);
    scales.set(scale || []);
    return {
      outs, ins, paddedOuts, paddedIns, scales, Type: data.constructor, // of the numbers
      kernel: isInt8 ? this.kernels.product_int8 : this.kernels.product_float32,
      address: this.store(padded),
      scaleAddress: this.store(scales),
    };
  }

  product(x, { outs, ins, paddedOuts, paddedIns, kernel, address, scaleAddress }) {
    const rows = x.length / ins;
    const scratch = this.end; // four rows of float32 weights, then the inputs, then the outputs
    const inputs = scratch + 16 * paddedIns;
    const outputs = inputs + 4 * rows * paddedIns;
    this.reserve(outputs + 4 * rows * paddedOuts);
    const memory = new Float32Array(this.kernels.memory.buffer);
    if (ins === paddedIns) {
      memory.set(x, inputs / 4);
    } else {
      memory.fill(0, inputs / 4, outputs / 4);
      for (let row = 0; row < rows; row += 1) {
        memory.set(x.subarray(row * ins, (row + 1) * ins), inputs / 4 + row * paddedIns);
      }
    }
    kernel(inputs, rows, address, scaleAddress, outputs, paddedOuts, paddedIns, scratch);
    const y = memory.slice(outputs / 4, outputs / 4 + rows * paddedOuts);
    if (outs === paddedOuts) {
      return y;
    }
    for (let row = 1; row < rows; row += 1) { // leave out the padding
      y.copyWithin(row * outs, row * paddedOuts, row * paddedOuts + outs);
    }
    return y.slice(0, rows * outs);
  }

  multiply(x, data, ins) {
    const { end } = this;
    const y = this.product(x, this.load({ data, shape: [data.length / ins, ins] }));
    this.end = end; // the matrix is no longer needed
    return y;
  }

  row({ ins, paddedIns, scales, Type, address }, index) {
    const bytes = Type.BYTES_PER_ELEMENT;
    const weights = new Type(this.kernels.memory.buffer, address + index * paddedIns * bytes, ins);
    return new Float32Array(weights).map((weight) => weight * scales[index]);
  }

  // Store numbers; return their address.
  store(numbers) {
    const address = this.end;
    this.end = roundUp(address + numbers.byteLength, 16);
    this.reserve(this.end);
    new numbers.constructor(this.kernels.memory.buffer, address, numbers.length).set(numbers);
    return address;
  }

  // Let the memory have this many bytes.
  reserve(bytes) {
    const { memory } = this.kernels;
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) {
      memory.grow(Math.ceil(missing / 65536));
    }
  }
}

function roundUp(number, multiple) {
  return Math.ceil(number / multiple) * multiple;
}

// The fastest kernels that this browser can run. files: the assembled ones, the fastest first.
function chooseKernels(files) {
  for (const bytes of files) {
    try {
      return new WasmKernels(bytes);
    } catch { // no relaxed SIMD, no SIMD, or no WebAssembly at all
      continue;
    }
  }
  return new PlainKernels();
}
