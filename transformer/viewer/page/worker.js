// The engine in a worker, so that the page stays responsive. The page sends { id, method,
// request } and gets { id, result } or { id, error, code, values }, and of long calls
// { id, soFar } before; its first message brings the model.

const MAX_DELAY = 30; // milliseconds of a long call after which other messages are handled
const REPORT_EVERY = 300; // milliseconds of a long call between two results so far
let engine = null;
const aborted = new Set(); // ids of calls whose result is no longer wanted

// The methods of the page; those that pause free their memory themselves.
const METHODS = {
  async start({ weights, kernels }) {
    const stream = new Blob(weights).stream().pipeThrough(new DecompressionStream("deflate"));
    const file = await new Response(stream).arrayBuffer();
    engine = new Engine(new Uint8Array(file), chooseKernels(kernels));
    setTimeout(collectGarbage); // when nothing refers to the weights any more
  },
  translate: inScope((request) => engine.translate(request)),
  inspect: inScope((request) => engine.inspect(request)),
  listWords: inScope((request) => engine.listWords(request)),
  inspectHead: inScope((request) => inspectHead(engine, request)),
  ablate: inScope((request) => ablate(engine, request)),
  ablateEach: (request, pause) => ablateEach(engine, request, pause),
  explain: inScope((request) => engine.explain(request)),
  leaveOutWords: (request, pause) => engine.leaveOutWords(request, pause),
};

function inScope(method) {
  return (request) => engine.arena.scope(() => method(request));
}

// Let other messages be handled: a message to oneself comes after them. (A timer would, too, but
// browsers delay repeated ones by 4 ms.)
const toOneself = new MessageChannel();
toOneself.port1.start();

function handleOthers() {
  return new Promise((resolve) => {
    toOneself.port1.addEventListener("message", resolve, { once: true });
    toOneself.port2.postMessage(null);
  });
}

addEventListener("message", async ({ data: { id, method, request } }) => {
  if (method === "abort") {
    aborted.add(id);
    return;
  }
  let paused = performance.now(); // the last time
  let reported = -Infinity;
  const pause = async (soFar) => {
    if (performance.now() - paused > MAX_DELAY) {
      await handleOthers();
      paused = performance.now();
    }
    if (soFar && paused - reported > REPORT_EVERY) {
      postMessage({ id, soFar });
      reported = paused;
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
