"use strict";

// Elements. Text is only ever set as text: no input and no translation is read as HTML.

function byId(id) {
  return document.getElementById(id);
}

// An element with attributes, listeners (on…), and children: elements or text.
function makeElement(tag, attributes, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes, ...children) {
  return fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat()) {
    element.append(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
  return element;
}

// Replace the children of an element. A focus inside moves to the child with the same
// data-… attributes.
function replaceChildren(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement !== element ? document.activeElement : null;
  const key = focused && JSON.stringify(focused.dataset);
  element.replaceChildren(...children.flat());
  const items = itemsOf(element);
  const chosen = items.find((item) => item.getAttribute("aria-pressed") === "true") || items[0];
  const same = focused && (items.find((item) => JSON.stringify(item.dataset) === key) || chosen);
  if ("roving" in element.dataset) {
    setTabStop(items, same || chosen);
  }
  same?.focus({ preventScroll: true });
}

function itemsOf(element) {
  return [...element.querySelectorAll("button, select, [role='button']")];
}

// Whether others can open the address of the page.
function isOnline() {
  return location.protocol.startsWith("http");
}

// Copy a text; return whether that worked. Without HTTPS, browsers let a page copy only what is
// selected.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = document.activeElement;
    const field = makeElement("textarea", { class: "unseen" });
    field.value = text;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused.focus({ preventScroll: true });
    return isCopied;
  }
}

// A group of buttons is one tab stop; the arrow keys move between them.
function setTabStop(items, stop) {
  items.forEach((item) => { item.tabIndex = item === stop ? 0 : -1; });
}

const OFF_LINE = 1e6; // pixels that make every item in the line nearer
const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

function moveByArrows(element) {
  element.addEventListener("focusin", (event) => setTabStop(itemsOf(element), event.target));
  element.addEventListener("keydown", (event) => {
    const next = ARROWS[event.key] && findNearest(itemsOf(element), event.target, ARROWS[event.key], element.dataset.roving === "free");
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });
}

// The nearest item in a direction. Sideways, it is in the same line, unless `isFree`; up and
// down, it is below or above if possible.
function findNearest(items, from, [x, y], isFree = false) {
  const start = from.getBoundingClientRect();
  const overlap = (box) => (x
    ? Math.min(start.bottom, box.bottom) - Math.max(start.top, box.top)
    : Math.min(start.right, box.right) - Math.max(start.left, box.left));
  const isInLine = (box) => overlap(box) > (x ? Math.min(start.height, box.height) / 2 : 1);
  let [closest, smallest] = [null, Infinity];
  for (const item of items) {
    const box = item.getBoundingClientRect();
    const ahead = (box.left - start.left) * x + (box.top - start.top) * y;
    const aside = x ? Math.abs(box.top + box.bottom - start.top - start.bottom) / 2 : Math.abs(box.left + box.right - start.left - start.right) / 2;
    const distance = isInLine(box) ? ahead + aside / 10 : x && !isFree ? Infinity : OFF_LINE + ahead + 3 * aside;
    if (ahead > 1 && distance < smallest) {
      [closest, smallest] = [item, distance];
    }
  }
  return closest;
}

// A number as the language of the page writes it, such as 29,000 or 6.0.
const numberFormats = new Map(); // language and digits → the format, which is slow to make

function formatNumber(number, digits = 2) {
  const key = `${reader.language} ${digits}`;
  if (!numberFormats.has(key)) {
    numberFormats.set(key, new Intl.NumberFormat(reader.language, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  const isZero = Number(number.toFixed(digits)) === 0; // not −0.00
  return numberFormats.get(key).format(isZero ? 0 : number).replace("-", "−");
}

// A probability: one that is too small for the digits is still not zero.
function formatProbability(probability, digits = 2) {
  const least = 10 ** -digits;
  return probability < least / 2 ? `< ${formatNumber(least, digits)}` : formatNumber(probability, digits);
}

// A colour of the theme in CSS, looked up once per theme.
const themeColours = new Map();

function themeColour(name) {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  if (!themeColours.has(key)) {
    themeColours.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return themeColours.get(key);
}

// Attention is blue, and only lightness shows how much, so that everyone can read it. The
// difference of two models has two more colours, which colour-blind people can tell apart.
const RAMPS = {
  light: [[255, 255, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
  dark: [[17, 21, 27], [24, 58, 92], [36, 108, 160], [110, 178, 226], [232, 244, 255]],
};
const LESS = [153, 50, 140];
const MORE = [27, 120, 55];

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function mixColours(from, to, share) {
  return from.map((value, i) => Math.round(value + (to[i] - value) * share));
}

// The colour of a weight from 0 to 1: [red, green, blue]. The square root makes small
// weights visible.
function weightColour(weight) {
  const ramp = isDark() ? RAMPS.dark : RAMPS.light;
  const position = Math.sqrt(Math.min(Math.max(weight, 0), 1)) * (ramp.length - 1);
  const below = Math.min(Math.floor(position), ramp.length - 2);
  return mixColours(ramp[below], ramp[below + 1], position - below);
}

// The colour of a difference from -1 to 1.
function differenceColour(difference) {
  const neutral = isDark() ? RAMPS.dark[0] : RAMPS.light[0];
  const share = Math.min(Math.sqrt(Math.abs(difference)), 1);
  return mixColours(neutral, difference < 0 ? LESS : MORE, share);
}

// The colour of a number from -1 to 1: orange is positive, blue is negative.
const NEGATIVE = { light: [26, 95, 180], dark: [122, 183, 255] };
const POSITIVE = { light: [179, 88, 6], dark: [242, 166, 90] };

function signedColour(number) {
  const theme = isDark() ? "dark" : "light";
  const strongest = number < 0 ? NEGATIVE[theme] : POSITIVE[theme];
  return mixColours(RAMPS[theme][0], strongest, Math.min(Math.sqrt(Math.abs(number)), 1));
}

function toCss(colour) {
  return `rgb(${colour.join(",")})`;
}

// Black or white, whichever has the larger contrast with a colour: at least 4.5, as WCAG asks.
const EVEN = 0.179; // the luminance with which both have the same

function textColourOn(colour) {
  const [red, green, blue] = colour.map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > EVEN ? "#000000" : "#ffffff";
}
