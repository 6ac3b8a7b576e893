// The model of the page: model.js.

async function makeModel({ settings, tensors, wasm }) {
  const model = new Transformer(settings, tensors, chooseKernels(decodeBase64(wasm)));
  const encode = model.encode.bind(model);
  model.encode = (source) => {
    Object.assign(model.arena, { block: 0, end: 0 }); // the translation before is done
    return encode(source);
  };
  return model;
}
