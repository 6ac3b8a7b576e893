// Where sights come from: the page's own server, or what was frozen into the file.

const NOT_IN_FILE = "This is not in the file; use serve.py to see it.";

class Unreachable extends Error {}

class FromServer {
  constructor() {
    this.isFrozen = false;
  }

  async models(signal) {
    return (await this.ask("models", null, signal)).models;
  }

  async translate({ model, text }, signal) {
    return (await this.ask("translate", { model, text, split: false }, signal)).translations;
  }

  async see(asked, signal) {
    return new Sight((await this.ask("see", asked, signal)).result, asked);
  }

  has() {
    return true;
  }

  async ask(path, body, signal) {
    const options = body
      ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal }
      : { signal };
    let answer;
    let told;
    try {
      answer = await fetch(path, options);
      told = await answer.json(); // a proxy may answer with a page of its own
    } catch (error) {
      if (error.name === "AbortError") {
        throw error;
      }
      throw new Unreachable("The server does not answer. Trying again …");
    }
    if (answer.status === 429 || answer.status === 503) {
      throw new Unreachable(`${told.error} Trying again …`);
    }
    if (!answer.ok) {
      throw new Error(told.error);
    }
    return told;
  }
}

class FromFile {
  constructor(data) {
    this.data = data;
    this.isFrozen = true;
  }

  async models() {
    return this.data.models;
  }

  async see(asked) {
    const found = this.find(asked);
    if (!found) {
      throw new Error(NOT_IN_FILE);
    }
    return new Sight(found.inspection, asked);
  }

  has(asked) {
    return this.find(asked) !== undefined;
  }

  find({ model, text, prefix, target }) {
    return this.data.inspections.find((each) =>
      each.text === text && each.model === model && each.prefix.join() === prefix.join() &&
      (target === null || each.inspection.target.ids.slice(0, -1).join() === target.join()));
  }

  get texts() {
    return [...new Set(this.data.inspections.map((each) => each.text))];
  }
}
