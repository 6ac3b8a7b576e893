// From pieces to words, like text/words.py: which pieces make a word.

const SPECIAL_NAMES = { [PAD]: "⟨pad⟩", [UNK]: "⟨unk⟩", [BOS]: "⟨begin⟩", [EOS]: "⟨end⟩" };
const BYTE = /<0x[0-9A-F]{2}>/; // a piece of a vocabulary with byte fallback

// Group the pieces of a sentence into words: { ids, pieces, words, spans }. A special id,
// such as the end of the sentence, counts as a word. A span is [first piece, end).
function splitIntoWords(vocabulary, ids) {
  const isText = (id) => ![PAD, BOS, EOS].includes(id);
  const isStart = (i) => i === 0 || !isText(ids[i - 1]) || !isText(ids[i]) || vocabulary.pieces[ids[i]].startsWith(SPACE_MARK);
  const pieces = ids.map((id) => SPECIAL_NAMES[id] ?? vocabulary.pieces[id]);
  const starts = ids.map((_, i) => i).filter(isStart);
  const spans = starts.map((start, i) => [start, starts[i + 1] ?? ids.length]);
  const words = spans.map(([start, end]) => {
    const text = pieces.slice(start, end).join("");
    const word = BYTE.test(text) ? vocabulary.decode(ids.slice(start, end)) : text;
    return word.replaceAll(SPACE_MARK, "") || pieces[start];
  });
  return { ids, pieces, words, spans };
}

// Replace the words by those of the line, which also has the unknown words.
function restoreUnknownWords(tokens, vocabulary, line) {
  const words = vocabulary.normalize(line).split(SPACE_MARK).slice(1);
  const count = tokens.spans.filter(([start]) => ![PAD, BOS, EOS].includes(tokens.ids[start])).length;
  const fits = words.length === count && words.every((word) => word !== "");
  return fits ? { ...tokens, words: [...words, ...tokens.words.slice(count)] } : tokens;
}
