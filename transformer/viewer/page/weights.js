// Read safetensors: the length of the header, the header in JSON, the data of the tensors.

const TENSOR_TYPES = { F32: Float32Array, F16: Uint16Array, I8: Int8Array, U8: Uint8Array };

// A file → { settings, tensors }; tensors: name → { shape, data, scale }. Matrices are
// [out, in]; an int8 matrix has a scale for each output. float16 becomes float32.
function readWeights(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const { __metadata__: metadata, ...entries } = JSON.parse(bytesToText(file.slice(8, start)));
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: [begin, end] }] of Object.entries(entries)) {
    const Type = TENSOR_TYPES[dtype];
    const data = new Type(file.buffer, file.byteOffset + start + begin, (end - begin) / Type.BYTES_PER_ELEMENT);
    tensors.set(name, { shape, data: dtype === "F16" ? widenFloats(data) : data });
  }
  for (const [name, tensor] of tensors) {
    tensor.scale = tensors.get(`${name}.scale`)?.data;
  }
  return { settings: JSON.parse(metadata.settings), tensors };
}

// float16, as 16 bits, → float32: a sign, 5 bits of exponent, 10 bits of fraction.
function widenFloats(bits) {
  return Float32Array.from(bits, (half) => {
    const exponent = (half >> 10) & 31;
    const fraction = (half & 1023) / 1024;
    const size = exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction;
    return half >> 15 ? -size : size;
  });
}
