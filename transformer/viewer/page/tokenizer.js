"use strict";

// A SentencePiece model: lines ↔ ids. It does what the library does, for the types bpe and
// unigram: normalize a line, cut it into pieces, look up their ids. The model file is a
// protocol buffer: https://github.com/google/sentencepiece, src/sentencepiece_model.proto.

const SPACE_MARK = "\u2581"; // ▁
const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
const TYPES = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 };
const UNIGRAM = 1;
const UNKNOWN_PENALTY = 10; // unigram: an unknown character is this much worse than any piece
const WORD = /\u2581?[^\u2581]+|\u2581/g;

class Vocabulary {
  // bytes: a Uint8Array, the model file.
  constructor(bytes) {
    const model = readMessage(bytes);
    const [trainer, normalizer] = [readMessage(model.get(2)[0]), readMessage(model.get(3)[0])];
    this.isUnigram = numberOf(trainer, 3, UNIGRAM) === UNIGRAM;
    this.hasBytes = numberOf(trainer, 35, 0) === 1; // byte fallback
    this.unknownText = textOf(trainer, 44, " \u2047 "); // ⁇
    this.addsSpace = numberOf(normalizer, 3, 1) === 1;
    this.rules = new CharacterMap((normalizer.get(2) || [new Uint8Array(0)])[0]);
    [this.pieces, this.scores, this.types] = [[], [], []];
    for (const piece of model.get(1).values()) {
      const fields = readMessage(piece);
      this.pieces.push(textOf(fields, 1, ""));
      this.scores.push(fields.has(2) ? floatOf(fields.get(2)[0]) : 0);
      this.types.push(numberOf(fields, 3, TYPES.normal));
    }
    this.size = this.pieces.length;
    this.ids = new Map(this.pieces.map((piece, id) => [piece, id])
      .filter(([, id]) => this.types[id] === TYPES.normal));
    this.byteIds = this.pieces.flatMap((piece, id) => (this.types[id] === TYPES.byte ? [id] : []));
    this.longest = Math.max(...[...this.ids.keys()].map((piece) => [...piece].length));
    this.lowestScore = Math.min(...[...this.ids.values()].map((id) => this.scores[id]));
    this.hasPiecesOfWords = [...this.ids.keys()].some((piece) => piece.lastIndexOf(SPACE_MARK) > 0);
  }

  // The ids of a line, without BOS and EOS. Several unknown pieces in a row are one UNK.
  encode(line) {
    const text = this.normalize(line);
    const words = this.hasPiecesOfWords ? [text] : text.match(WORD) || [];
    const pieces = this.isUnigram ? this.findBestPieces(text) : words.flatMap((word) => this.mergePieces(word));
    const ids = [];
    for (const piece of pieces) {
      if (this.ids.has(piece)) {
        ids.push(this.ids.get(piece));
      } else if (this.hasBytes) {
        ids.push(...[...new TextEncoder().encode(piece)].map((byte) => this.byteIds[byte]));
      } else if (ids[ids.length - 1] !== UNK) {
        ids.push(UNK);
      }
    }
    return ids;
  }

  // Replace characters by the rules of the model, and spaces by "▁"; put one before each word.
  normalize(line) {
    const words = this.rules.apply(line).split(" ").filter((word) => word !== "");
    const text = words.join(SPACE_MARK);
    return (this.addsSpace ? SPACE_MARK + text : text).replace(/\u2581+$/, "");
  }

  // Byte-pair encoding: start from characters; repeatedly merge the two neighbours whose
  // merge was learned first, the leftmost if there are several.
  mergePieces(word) {
    const pieces = [...word];
    const score = (i) => this.scores[this.ids.get(pieces[i] + pieces[i + 1])] ?? -Infinity;
    const scores = pieces.slice(1).map((_, i) => score(i)); // of merging piece i with the next
    for (;;) {
      let best = -1;
      scores.forEach((value, i) => { best = value > (scores[best] ?? -Infinity) ? i : best; });
      if (best < 0) {
        return pieces;
      }
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
      scores.splice(best, 1);
      for (let i = Math.max(best - 1, 0); i <= best && i < scores.length; i += 1) {
        scores[i] = score(i);
      }
    }
  }

  // Unigram language model: the pieces with the largest sum of scores (Viterbi). Sums are
  // rounded to float32, like the library's, so that equal sums are equal here, too.
  findBestPieces(text) {
    const characters = [...text];
    const paths = characters.map(() => null); // the best path to each position: { start, sum }
    paths.push(null);
    paths[0] = { start: 0, sum: 0 };
    const extend = (start, end, score) => {
      const sum = Math.fround(paths[start].sum + score);
      if (paths[end] === null || sum > paths[end].sum) {
        paths[end] = { start, sum };
      }
    };
    for (let start = 0; start < characters.length; start += 1) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(start + this.longest, characters.length); end += 1) {
        piece += characters[end - 1];
        if (this.ids.has(piece)) {
          extend(start, end, this.scores[this.ids.get(piece)]);
        } else if (end === start + 1) {
          extend(start, end, Math.fround(this.lowestScore - UNKNOWN_PENALTY));
        }
      }
    }
    const pieces = [];
    for (let end = characters.length; end > 0; end = paths[end].start) {
      pieces.unshift(characters.slice(paths[end].start, end).join(""));
    }
    return pieces;
  }

  // The text of ids up to the first EOS, without PAD and BOS.
  decode(ids) {
    let text = "";
    let bytes = [];
    const flush = () => {
      text += decodeTolerantly(Uint8Array.from(bytes));
      bytes = [];
    };
    for (const id of this.stripSpecial(ids)) {
      if (this.types[id] === TYPES.byte) {
        bytes.push(this.byteIds.indexOf(id));
      } else {
        flush();
        const piece = id === UNK ? this.unknownText : this.pieces[id].replaceAll(SPACE_MARK, " ");
        text += text === "" && id !== UNK ? piece.replace(/^ /, "") : piece;
      }
    }
    flush();
    return text;
  }

  stripSpecial(ids) {
    const end = ids.indexOf(EOS);
    return ids.slice(0, end < 0 ? ids.length : end).filter((id) => id !== PAD && id !== BOS);
  }
}

// The rules of normalization: a text → its replacement, for the longest text that begins at
// each position. The texts are the paths of a trie of bytes, a double array (Darts-clone,
// https://github.com/s-yata/darts-clone): each unit is 32 bits, and the child of a unit for
// byte b is at (its index ^ its offset ^ b), if it has the label b.
class CharacterMap {
  constructor(bytes) {
    this.isEmpty = bytes.length === 0;
    if (!this.isEmpty) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const size = view.getUint32(0, true);
      this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
      this.replacements = bytes.subarray(4 + size); // each ends with a zero byte
    }
  }

  apply(text) {
    if (this.isEmpty) {
      return text;
    }
    const bytes = new TextEncoder().encode(text);
    const output = [];
    for (let i = 0; i < bytes.length;) {
      const [length, start] = this.findLongest(bytes, i);
      if (length > 0) {
        for (let j = start; this.replacements[j] !== 0; j += 1) {
          output.push(this.replacements[j]);
        }
        i += length;
      } else { // a character without a rule
        do {
          output.push(bytes[i]);
          i += 1;
        } while ((bytes[i] & 0xc0) === 0x80);
      }
    }
    return bytesToText(Uint8Array.from(output));
  }

  // [the length of the longest text with a rule, where its replacement begins].
  findLongest(bytes, start) {
    const offset = (unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let longest = [0, 0];
    let index = offset(this.units[0]);
    for (let i = start; i < bytes.length; i += 1) {
      index ^= bytes[i];
      const unit = this.units[index];
      if ((unit & 0x800000ff) !== bytes[i]) { // the label; the sign marks a value
        break;
      }
      index ^= offset(unit);
      if ((unit >>> 8) & 1) { // a text ends here
        longest = [i + 1 - start, this.units[index] & 0x7fffffff];
      }
    }
    return longest;
  }
}

// Protocol buffers: a message → field number → its values, each a number or bytes.

function readMessage(bytes) {
  const fields = new Map();
  let at = 0;
  const readNumber = () => { // seven bits a byte, the lowest first
    let number = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at];
      at += 1;
      number += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        return number;
      }
    }
  };
  while (at < bytes.length) {
    const key = readNumber();
    const kind = key % 8; // 0: a number, 1: 8 bytes, 2: a length and bytes, 5: 4 bytes
    let value;
    if (kind === 0) {
      value = readNumber();
    } else {
      const length = kind === 2 ? readNumber() : { 1: 8, 5: 4 }[kind];
      value = bytes.subarray(at, at + length);
      at += length;
    }
    const field = Math.floor(key / 8);
    if (!fields.has(field)) {
      fields.set(field, []);
    }
    fields.get(field).push(value);
  }
  return fields;
}

function numberOf(message, field, byDefault) {
  return message.has(field) ? message.get(field)[0] : byDefault;
}

function textOf(message, field, byDefault) {
  return message.has(field) ? bytesToText(message.get(field)[0]) : byDefault;
}

function floatOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
}

// Each byte that is not part of a character becomes U+FFFD.
function decodeTolerantly(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const lengths = [1, 2, 3, 4].filter((length) => at + length <= bytes.length);
    const length = lengths.find((size) => !bytesToText(bytes.subarray(at, at + size)).includes("\ufffd"));
    text += length ? bytesToText(bytes.subarray(at, at + length)) : "\ufffd";
    at += length || 1;
  }
  return text;
}

const textDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

function bytesToText(bytes) {
  return textDecoder.decode(bytes);
}
