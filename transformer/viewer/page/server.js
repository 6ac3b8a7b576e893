// The source of the inspections: the page's own server, or the data in the file.

function sayNotInFile() {
  return say`This is not in the file; use serve.py to see it.`;
}

const TOO_LONG = 413; // the status of a request with more than the server takes
// The numbers of sentences of the first requests for a text, whose answers are shown before
// the rest is translated, and of all others: the server takes 256, and others wait.
const PART_SIZES = [4, 16, 100];

class Unreachable extends Error {}

class ServerSource {
  // data: { models, example }, of the moment when the page was loaded.
  constructor({ models, example }) {
    this.isFrozen = false;
    this.hasPadding = true;
    this.descriptions = models;
    this.example = example;
  }

  // The models as the page knows them, the first time; then the server may have others.
  async models(signal) {
    const { descriptions } = this;
    this.descriptions = null;
    return descriptions ?? (await this.fetchJson("models", null, signal)).models;
  }

  // Translate a text, one part after the other: yields { sentences: [{ source, text, words,
  // unknown }], gaps, done }: the words of a translation with their probabilities, and those of
  // the source that the model cannot read; the characters before each sentence; and how much of
  // the text is done, from 0 to 1. The text of a sentence that is too long is null, and it has
  // an error.
  async* translate({ model, text, language }, signal) {
    const { split } = page.models[model];
    const parts = split ? cutText(text, language, PART_SIZES) : [{ gap: "", text }];
    let done = 0;
    for (const part of parts) {
      const answer = await this.translatePart({ model, text: part.text, split, words: true }, language, signal);
      const gaps = findGaps(answer.text, answer.sentences.map((sentence) => sentence.text ?? sentence.source));
      done += part.gap.length + part.text.length;
      yield { sentences: answer.sentences, gaps: gaps.map((gap, i) => (i ? gap : part.gap + gap)), done: done / text.length };
    }
  }

  // Translate a part of a text: { text, sentences }. If the server finds it too long, it is
  // cut into halves.
  async translatePart(request, language, signal) {
    const { text, split } = request;
    try {
      const [answer] = (await this.fetchJson("translate", request, signal)).translations;
      const sentences = answer.sentences ?? [{ ...answer, source: text }];
      return { text: answer.text, sentences: sentences.map((sentence) => ({ ...sentence, source: sentence.source.split(/\s+/).join(" ").trim() })) };
    } catch (error) {
      const count = error.status === TOO_LONG && split ? splitSentences(text, language).length : 0;
      if (count === 0) {
        throw error;
      }
      if (count === 1) {
        return { text, sentences: [{ source: text, text: null, error }] };
      }
      const halves = cutText(text, language, [Math.ceil(count / 2)]);
      const answers = [];
      for (const half of halves) {
        answers.push(await this.translatePart({ ...request, text: half.text }, language, signal));
      }
      return { text: answers.map((answer, i) => halves[i].gap + answer.text).join(""), sentences: answers.flatMap(({ sentences }) => sentences) };
    }
  }

  async inspect(request, signal) {
    return new Inspection((await this.fetchJson("see", { ...request, leave_out: false }, signal)).result, request);
  }

  // The likeliest words for the place of a word: [{ word, probability, ids, isEnd }].
  async listWords({ text, model, data }, word) {
    const target = data.target.ids.slice(0, -1);
    return (await this.fetchJson("words", { text, model, target, word })).result;
  }

  // What became of an expected translation, which is text or ids.
  async explain(request, signal) {
    return (await this.fetchJson("why_not", request, signal)).result;
  }

  // A few test sentences, from the index `start`: { total, sentences }.
  async testSentences(request, signal) {
    return this.fetchJson("test_sentences", request, signal);
  }

  // The training pairs that are like a sentence; null: there is no data folder.
  async trainingPairs(request, signal) {
    return (await this.fetchJson("training_pairs", request, signal)).result;
  }

  // What each source word contributes: it takes longer than the rest of an inspection.
  async leaveOutWords({ text, model, data }, signal) {
    const target = data.target.ids.slice(0, -1);
    return (await this.fetchJson("leave_out", { text, model, target }, signal)).result;
  }

  // What an attention head computes: name is { kind, layer, head }.
  async inspectHead({ text, model, data }, name, signal) {
    const target = data.target.ids.slice(0, -1);
    return (await this.fetchJson("head", { text, model, target, padding: view.padding, ...name }, signal)).result;
  }

  // The translation without some heads.
  async ablate({ text, model, prefix, data }, heads, signal) {
    const target = data.target.ids.slice(0, -1);
    const names = heads.map(({ kind, layer, head }) => [kind, layer, head]);
    return (await this.fetchJson("ablate", { text, model, target, prefix, heads: names }, signal)).result;
  }

  // What each head contributes.
  async ablateEach({ text, model, data }, signal) {
    const target = data.target.ids.slice(0, -1);
    return (await this.fetchJson("ablate_each", { text, model, target }, signal)).result;
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
      throw new Unreachable(say`The server does not answer. Retrying …`);
    }
    if (response.status === 429 || response.status === 503) {
      throw new Unreachable(say`${describeError(makeError(answer))} Retrying …`);
    }
    if (!response.ok) {
      throw makeError(answer, response.status);
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

  async* translate({ model, text }) {
    const entry = this.find({ model, text, prefix: [], target: null });
    if (!entry) {
      throw makeError({ error: sayNotInFile(), code: "not_in_file" });
    }
    const [best] = entry.inspection.nBest;
    yield { sentences: [{ source: text, text: best.text }], gaps: [""], done: 1 };
  }

  async inspect(request) {
    const entry = this.find(request);
    if (!entry) {
      throw makeError({ error: sayNotInFile(), code: "not_in_file" });
    }
    return new Inspection(entry.inspection, request);
  }

  async listWords({ data }, word) {
    if (!data.choices) {
      throw makeError({ error: sayNotInFile(), code: "not_in_file" });
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
