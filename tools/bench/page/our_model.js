// The model of the page: model.js.

async function makeModel({ settings, tensors, wasm }) {
  return new Transformer(settings, tensors, chooseKernels(decodeBase64(wasm)));
}
