// A text → its sentences, and the translations of the sentences → one text.

const MAX_CHARACTERS = 20000; // of a text, like MAX_CHARACTERS_SPLIT of the service
// What ends with a full stop, but does not end a sentence: letters, numbers, titles.
const ABBREVIATION = /(^|[\s([„“"])(\p{L}|\d{1,3}|Dr|Prof|Hr|Fr|St|Nr|No|Mr|Mrs|Ms|ca|vs|bzw|etc|usw)\.$/u;

// Split a text into sentences. A sentence ends at the end of a line; within a line, the
// browser finds the ends.
function splitSentences(text, language) {
  return text.split(/\s*\n\s*/).flatMap((line) => splitLine(line.trim(), language)).filter(Boolean);
}

function splitLine(line, language) {
  if (!Intl.Segmenter) {
    return [line];
  }
  const segmenter = new Intl.Segmenter(language ?? undefined, { granularity: "sentence" });
  const sentences = [];
  let current = "";
  for (const { segment } of segmenter.segment(line)) {
    if (current && (ABBREVIATION.test(current) || /^\p{Ll}/u.test(segment))) {
      current += ` ${segment.trim()}`;
    } else {
      sentences.push(current);
      current = segment.trim();
    }
  }
  return [...sentences, current];
}

// What stands between the sentences in a text that has them in order: for each sentence,
// the characters before it.
function findGaps(text, sentences) {
  let end = 0;
  return sentences.map((sentence, i) => {
    const start = text.indexOf(sentence, end);
    if (start < 0) {
      return i ? " " : "";
    }
    const gap = text.slice(end, start);
    end = start + sentence.length;
    return gap;
  });
}

// Cut a text into parts of some sentences: [{ gap, text }], with what stands before each part.
// sizes: the numbers of sentences of the first parts; the last is that of all others.
function cutText(text, language, sizes) {
  const sentences = splitSentences(text, language);
  const gaps = findGaps(text, sentences);
  const parts = [];
  for (let start = 0; start < sentences.length;) {
    const end = start + (sizes[parts.length] ?? sizes.at(-1));
    const of = sentences.slice(start, end).map((sentence, i) => (i ? gaps[start + i] : "") + sentence);
    parts.push({ gap: gaps[start], text: of.join("") });
    start = end;
  }
  return parts;
}

// Some of the translated sentences may have failed: an error if all have, or if there are none,
// because the text has only characters that are not translated.
function checkSentences(sentences) {
  if (sentences.length === 0) {
    throw makeError({ code: "no_pieces" });
  }
  if (sentences.every(({ text }) => text === null)) {
    throw sentences[0].error;
  }
}

// The beginning of a text that is translated, up to the last space before the limit.
function limitText(text) {
  const characters = [...text];
  if (characters.length <= MAX_CHARACTERS) {
    return text;
  }
  const beginning = characters.slice(0, MAX_CHARACTERS).join("");
  return beginning.replace(/(?<=\s)\S{1,200}$/, "").trimEnd();
}
