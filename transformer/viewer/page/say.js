// What the page says, in the language of its reader. The code has the English texts, which
// are the keys of the other languages: say`Step ${3}` looks up "Step {0}".

const PAGE_LANGUAGES = {
  en: { name: "English", texts: {} },
  de: { name: "Deutsch", texts: GERMAN },
  es: { name: "Español", texts: SPANISH },
  fr: { name: "Français", texts: FRENCH },
  zh: { name: "中文", texts: CHINESE },
};
// The language of the page: that of the link, or else of the browser, until the reader
// chooses one.
const reader = { language: "en" };

// A text that is a constant elsewhere, such as the name of a kind of attention.
function translate(text) {
  return PAGE_LANGUAGES[reader.language].texts[text] ?? text;
}

// A text with values, as a template tag.
function say(strings, ...values) {
  return fillIn(translate(toKey(strings)), values).join("");
}

// The same if values are elements: the children of an element.
function sayWith(strings, ...values) {
  return fillIn(translate(toKey(strings)), values);
}

function toKey(strings) {
  return strings.reduce((text, string, i) => `${text}{${i - 1}}${string}`);
}

// A text cut at its places, with the values between the parts.
function fillIn(text, values) {
  return text.split(/{(\d)}/).map((part, i) => (i % 2 ? formatValue(values[part]) : part));
}

// Numbers look as in the language of the page.
function formatValue(value) {
  return typeof value === "number" ? value.toLocaleString(reader.language) : value;
}

// A text that is complete, such as “1.2 million parameters” from the server: `keys` are
// those that it may have.
function translateFilled(text, keys) {
  for (const key of keys) {
    const pattern = key.replace(/[()]/g, "\\$&").replace(/{\d}/g, "(.+)");
    const match = text.match(new RegExp(`^${pattern}$`));
    if (match) {
      return fillIn(translate(key), match.slice(1).map((part) => translateNumber(translate(part)))).join("");
    }
  }
  return text;
}

// A number in English, such as 29,000 or 6.0, with the same decimals.
function translateNumber(text) {
  const isNumber = /^[\d,]+(\.\d+)?$/.test(text);
  return isNumber ? formatNumber(Number(text.replaceAll(",", "")), (text.split(".")[1] ?? "").length) : text;
}

function quote(text) {
  return say`“${text}”`;
}

// The language of the browser, if the page has it.
function findLanguage() {
  return navigator.languages.map((code) => code.slice(0, 2)).find((code) => code in PAGE_LANGUAGES) ?? "en";
}

// The texts of page.html, before anything changes them: functions that write a text, and
// the English text.
const TEXT_ATTRIBUTES = ["aria-label", "placeholder", "title"];

function collectStaticTexts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let node = walker.currentNode; node; node = walker.nextNode()) {
    const { nodeType, data, parentNode } = node;
    if (nodeType === Node.TEXT_NODE && parentNode.tagName !== "SCRIPT" && data.trim()) {
      const [, before, text, after] = data.match(/^(\s*)(.*?)(\s*)$/s);
      const target = node;
      const write = parentNode.childNodes.length === 1
        ? (translation) => { parentNode.textContent = translation; } // the scripts may have replaced it
        : (translation) => { target.data = before + translation + after; };
      texts.push([write, text.replace(/\s+/g, " ")]);
    } else if (nodeType === Node.ELEMENT_NODE) {
      const element = node;
      for (const name of TEXT_ATTRIBUTES.filter((attribute) => element.hasAttribute(attribute))) {
        texts.push([(translation) => element.setAttribute(name, translation), element.getAttribute(name)]);
      }
    }
  }
  return texts;
}

const staticTexts = collectStaticTexts();

// Translate what page.html has; what the scripts draw is translated when it is drawn.
function setLanguage(code) {
  reader.language = code;
  document.documentElement.lang = code;
  for (const [write, text] of staticTexts) {
    write(translate(text));
  }
}
