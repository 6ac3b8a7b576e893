// The engine in a worker, so that the page stays responsive. The page sends { id, method,
// request } and gets { id, result } or { id, error, code, values }; its first message brings the model.

const MAX_DELAY = 30; // milliseconds of a long call after which other messages are handled
let engine = null;
const aborted = new Set(); // ids of calls whose result is no longer wanted

const METHODS = {
  start({ weights, kernels }) {
    engine = new Engine(weights, chooseKernels(kernels));
  },
  translate: (request) => engine.translate(request),
  inspect: (request) => engine.inspect(request),
  listWords: (request) => engine.listWords(request),
  inspectHead: (request) => inspectHead(engine, request),
  ablate: (request) => ablate(engine, request),
  ablateEach: (request, pause) => ablateEach(engine, request, pause),
  explain: (request) => engine.explain(request),
  leaveOutWords: (request, pause) => engine.leaveOutWords(request, pause),
};

addEventListener("message", async ({ data: { id, method, request } }) => {
  if (method === "abort") {
    aborted.add(id);
    return;
  }
  let time = performance.now(); // of the last pause
  const pause = async () => { // not at once: browsers delay repeated timers by 4 ms
    if (performance.now() - time > MAX_DELAY) {
      await new Promise((resolve) => { setTimeout(resolve); });
      time = performance.now();
    }
    if (aborted.delete(id)) {
      throw new Error("aborted");
    }
  };
  try {
    postMessage({ id, result: await METHODS[method](request, pause) });
  } catch (error) {
    postMessage({ id, error: error.message, code: error.code, values: error.values });
  }
});
