// Where sights come from: the page's own server, or what was frozen into the file.

class Unreachable extends Error {}

class FromServer {
  constructor() {
    this.isFrozen = false;
  }

  async models() {
    return (await this.ask("models")).models;
  }

  async translate(asked, signal) {
    return (await this.ask("translate", asked, signal)).result;
  }

  async see(asked, signal) {
    return new Sight((await this.ask("see", asked, signal)).result, asked.text);
  }

  async isThere() {
    try {
      return (await this.ask("healthz")).status === "ok";
    } catch {
      return false;
    }
  }

  async ask(path, body, signal) {
    const options = body
      ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal }
      : { signal };
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") {
        throw error;
      }
      throw new Unreachable("The server does not answer. Trying again …");
    }
    const told = await answer.json();
    if (answer.status === 503) {
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
    const target = asked.target && asked.target.join();
    const found = this.data.sights.find((each) =>
      each.text === asked.text && each.model === asked.model && !asked.prefix.length &&
      (!target || each.sight.target.ids.slice(0, -1).join() === target));
    if (!found) {
      throw new Error("This is not in the file; serve.py shows it.");
    }
    return new Sight(found.sight, asked.text);
  }

  get texts() {
    return [...new Set(this.data.sights.map((each) => each.text))];
  }
}
