// Errors of the service and of the engine, by their code: what the page says, and what to do.

const ERROR_TEXTS = {
  too_many_pieces: (count, limit) => say`The sentence has ${count} pieces; the model reads at most ${limit}. Shorten it, or divide it with a line break.`,
  too_many_target_pieces: (count, limit) => say`The translation has ${count} pieces; the model reads at most ${limit}. Shorten it.`,
  too_many_characters: (count, limit) => say`The text has ${count} characters; at most ${limit} are translated at once. Shorten it.`,
  no_pieces: () => say`There is nothing in this text that the model can read. Type words.`,
  queue_full: () => say`The server is busy with other readers.`,
  stopping: () => say`The server is being stopped.`,
  failed: () => say`The model failed on this sentence. Try another one; the log of the server says why.`,
};

// An error as it is thrown, of what was answered. values: the numbers of its sentence.
function makeError({ error, code, values = [] }, status) {
  return Object.assign(new Error(error), { code, values, status });
}

// What the page says of an error; those without a code only a programmer meets.
function describeError({ message, code, values = [] }) {
  return Object.hasOwn(ERROR_TEXTS, code ?? "") ? ERROR_TEXTS[code](...values) : message;
}
