// The source of the inspections: the model in the page itself, which runs in a worker.

const modelParts = []; // of the weights, compressed, in base64: scripts beside the page push them

function loadScript(address) {
  return new Promise((resolve, reject) => {
    const failure = new Error(say`${address} is missing; it belongs beside this page.`);
    document.head.append(makeElement("script", { src: address, onload: resolve, onerror: () => reject(failure) }));
  });
}

function decodeBase64(text) {
  if (Uint8Array.fromBase64) {
    return Uint8Array.fromBase64(text);
  }
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i += 1) {
    bytes[i] = characters.charCodeAt(i);
  }
  return bytes;
}

class ModelSource {
  constructor(data) {
    this.isFrozen = false;
    this.hasPadding = false;
    this.references = data.references; // [sentence, reference]
    const testSentences = { name: "the examples", total: data.references.length };
    this.descriptions = data.models.map((model) => ({ ...model, split: true, examples: data.examples, testSentences }));
    this.example = data.example ?? (data.examples.length ? { text: data.examples[0] } : null);
    this.waiting = new Map(); // id of a call → the functions of its promise
    this.count = 0; // of calls
    this.worker = new Worker(URL.createObjectURL(new Blob([data.engine], { type: "text/javascript" })));
    this.worker.addEventListener("message", ({ data: { id, result, soFar, ...failure } }) => {
      const { resolve, reject, report } = this.waiting.get(id);
      if (soFar) {
        report?.(soFar);
        return;
      }
      this.waiting.delete(id);
      if (failure.error === undefined) {
        resolve(result);
      } else {
        reject(makeError(failure));
      }
    });
    this.worker.addEventListener("error", ({ message }) => {
      this.waiting.forEach(({ reject }) => reject(new Error(say`The model cannot run: ${message}`)));
    });
    this.started = this.start(data);
  }

  // Give the weights to the worker: those in the page, or those in the scripts beside it.
  // Only the worker keeps them, as numbers.
  async start({ parts, kernels }) {
    byId("local").textContent = say`Loading the model …`;
    for (const [i, address] of parts.entries()) {
      await loadScript(address);
      byId("local").textContent = say`Loading the model: ${i + 1} of ${parts.length} MB`;
    }
    const weights = modelParts.splice(0).map(decodeBase64);
    for (const element of document.querySelectorAll(".weights")) {
      weights.push(decodeBase64(element.content.textContent));
      element.remove();
    }
    await this.call("start", { weights, kernels: decodeBase64(kernels) }, { transferred: weights.map(({ buffer }) => buffer) });
  }

  // The model is used only after it was loaded: a failure to load it is the answer.
  async ask(method, request, signal, report) {
    await this.started;
    signal?.throwIfAborted();
    return this.call(method, request, { signal, report });
  }

  async models() {
    return this.descriptions;
  }

  // Translate a text, one sentence after the other, as ServerSource does.
  async* translate({ text, language }, signal) {
    const sources = splitSentences(text, language);
    const gaps = findGaps(text, sources);
    for (const [i, source] of sources.entries()) {
      const sentence = { source: source.split(/\s+/).join(" "), ...await this.translateSentence(source, signal) };
      yield { sentences: [sentence], gaps: [gaps[i]], done: (i + 1) / sources.length };
    }
  }

  async translateSentence(text, signal) {
    try {
      const [best] = await this.ask("translate", { text }, signal);
      return best;
    } catch (error) {
      if (error.name === "AbortError") {
        throw error;
      }
      return { text: null, error };
    }
  }

  async inspect(request, signal) {
    const { text, prefix, target } = request;
    return new Inspection(await this.ask("inspect", { text, prefix, target }, signal), request);
  }

  // The likeliest words for the place of a word: [{ word, probability, ids, isEnd }].
  async listWords({ text, data }, word) {
    return this.ask("listWords", { text, target: data.target.ids.slice(0, -1), word });
  }

  // What became of an expected translation, which is text or ids.
  async explain({ text, target }, signal) {
    return this.ask("explain", { text, target }, signal);
  }

  // One of the examples with references: { total, sentences }.
  async testSentences({ start }, signal) {
    const [source, reference] = this.references[start];
    const [{ text: translation }] = await this.ask("translate", { text: source }, signal);
    return { total: this.references.length, sentences: [{ source, reference, translation, chrf: chrf(translation, reference) }] };
  }

  // The page has no training pairs.
  async trainingPairs() {
    return null;
  }

  // What each source word contributes: it takes longer than the rest of an inspection. report
  // gets the results so far.
  async leaveOutWords(inspection, signal, report) {
    const target = inspection.data.target.ids.slice(0, -1);
    return this.ask("leaveOutWords", { text: inspection.text, target }, signal, report);
  }

  // What an attention head computes: name is { kind, layer, head }.
  async inspectHead({ text, data }, name, signal) {
    return this.ask("inspectHead", { text, target: data.target.ids.slice(0, -1), ...name }, signal);
  }

  // The translation without some heads.
  async ablate({ text, prefix, data }, heads, signal) {
    const names = heads.map(({ kind, layer, head }) => [kind, layer, head]);
    return this.ask("ablate", { text, prefix, target: data.target.ids.slice(0, -1), heads: names }, signal);
  }

  // What each head contributes.
  async ablateEach({ text, data }, signal) {
    return this.ask("ablateEach", { text, target: data.target.ids.slice(0, -1) }, signal);
  }

  has() {
    return true;
  }

  // report: gets the results so far. transferred: what the worker gets without a copy of it.
  call(method, request, { signal, report, transferred = [] }) {
    this.count += 1;
    const id = this.count;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, report });
      this.worker.postMessage({ id, method, request }, transferred);
      signal?.addEventListener("abort", () => {
        this.worker.postMessage({ id, method: "abort" });
        reject(new DOMException("The request was aborted.", "AbortError"));
      });
    });
  }
}
