// The source of the inspections: the page's own server, or the data in the file.

const NOT_IN_FILE = "This is not in the file; use serve.py to see it.";

class Unreachable extends Error {}

class ServerSource {
  constructor() {
    this.isFrozen = false;
    this.hasPadding = true;
  }

  async models(signal) {
    return (await this.fetchJson("models", null, signal)).models;
  }

  // Translate a text: { text, sentences: [{ source, text }] }.
  async translate({ model, text }, signal) {
    const split = page.models[model].split;
    const [answer] = (await this.fetchJson("translate", { model, text, split, scores: true }, signal)).translations;
    const sentences = answer.sentences ?? [{ source: text, text: answer.text }];
    return { text: answer.text, sentences: sentences.map((sentence) => ({ ...sentence, source: sentence.source.split(/\s+/).join(" ").trim() })) };
  }

  async inspect(request, signal) {
    return new Inspection((await this.fetchJson("see", { ...request, leave_out: false }, signal)).result, request);
  }

  // The likeliest words for the place of a word: [{ word, probability, ids, isEnd }].
  async listWords({ text, model, data }, word) {
    const target = data.target.ids.slice(0, -1);
    return (await this.fetchJson("words", { text, model, target, word })).result;
  }

  // What each source word contributes: it takes longer than the rest of an inspection.
  async leaveOutWords({ text, model, data }, signal) {
    const target = data.target.ids.slice(0, -1);
    return (await this.fetchJson("leave_out", { text, model, target }, signal)).result;
  }

  has() {
    return true;
  }

  async fetchJson(path, body, signal) {
    const options = body
      ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal }
      : { signal };
    let response;
    let answer;
    try {
      response = await fetch(path, options);
      answer = await response.json(); // a proxy may answer with HTML
    } catch (error) {
      if (error.name === "AbortError") {
        throw error;
      }
      throw new Unreachable("The server does not answer. Retrying …");
    }
    if (response.status === 429 || response.status === 503) {
      throw new Unreachable(`${answer.error} Retrying …`);
    }
    if (!response.ok) {
      throw new Error(answer.error);
    }
    return answer;
  }
}

class FileSource {
  constructor(data) {
    this.data = data;
    this.isFrozen = true;
    this.hasPadding = false;
  }

  async models() {
    return this.data.models;
  }

  async translate({ model, text }) {
    const entry = this.find({ model, text, prefix: [], target: null });
    if (!entry) {
      throw new Error(NOT_IN_FILE);
    }
    const [best] = entry.inspection.nBest;
    return { text: best.text, sentences: [{ source: text, text: best.text }] };
  }

  async inspect(request) {
    const entry = this.find(request);
    if (!entry) {
      throw new Error(NOT_IN_FILE);
    }
    return new Inspection(entry.inspection, request);
  }

  async listWords({ data }, word) {
    if (!data.choices) {
      throw new Error(NOT_IN_FILE);
    }
    return data.choices[word];
  }

  has(request) {
    return this.find(request) !== undefined;
  }

  find({ model, text, prefix, target }) {
    return this.data.inspections.find((entry) =>
      entry.text === text && entry.model === model && entry.prefix.join() === prefix.join() &&
      (target === null || entry.inspection.target.ids.slice(0, -1).join() === target.join()));
  }

  get texts() {
    return [...new Set(this.data.inspections.map((entry) => entry.text))];
  }
}
