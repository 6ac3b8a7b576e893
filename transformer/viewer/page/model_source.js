// The source of the inspections: the model in the page itself, which runs in a worker.

class ModelSource {
  constructor(data) {
    this.isFrozen = false;
    this.hasPadding = false;
    this.descriptions = data.models;
    this.examples = data.examples;
    this.waiting = new Map(); // id of a call → the functions of its promise
    this.count = 0; // of calls
    this.worker = new Worker(URL.createObjectURL(new Blob([data.engine], { type: "text/javascript" })));
    this.worker.addEventListener("message", ({ data: { id, result, error } }) => {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error === undefined) {
        resolve(result);
      } else {
        reject(new Error(error));
      }
    });
    this.started = this.call("start", { weights: data.weights, kernels: data.kernels });
    data.weights = ""; // the worker has them
    byId("data").textContent = "";
  }

  async models() {
    await this.started;
    return this.descriptions;
  }

  async translate({ text }, signal) {
    return this.call("translate", { text }, signal);
  }

  async inspect(request, signal) {
    const { text, prefix, target } = request;
    return new Inspection(await this.call("inspect", { text, prefix, target }, signal), request);
  }

  // What each source word contributes: it takes longer than the rest of an inspection.
  async leaveOutWords(inspection, signal) {
    const target = inspection.data.target.ids.slice(0, -1);
    return this.call("leaveOutWords", { text: inspection.text, target }, signal);
  }

  has() {
    return true;
  }

  call(method, request, signal) {
    this.count += 1;
    const id = this.count;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, method, request });
      signal?.addEventListener("abort", () => {
        this.worker.postMessage({ id, method: "abort" });
        reject(new DOMException("The request was aborted.", "AbortError"));
      });
    });
  }
}
