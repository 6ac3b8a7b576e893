"use strict";

// Elements. Text is only ever set as text: nothing that a user or a model says is read
// as HTML.

function byId(id) {
  return document.getElementById(id);
}

// An element with attributes, listeners (on…), and children: elements or text.
function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
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

function replaceChildren(element, ...children) {
  element.replaceChildren(...children.flat());
}

function fixed(number, digits = 2) {
  return number.toFixed(digits).replace("-", "−");
}

// A colour of the page's theme, as CSS has it; asked for once a theme.
const themeColours = new Map();

function themeColour(name) {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  if (!themeColours.has(key)) {
    themeColours.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return themeColours.get(key);
}

// Sequential: only lightness says how much, so that every eye can tell. Diverging: blue
// for less, orange for more, which colour-blind people tell apart.
const RAMPS = {
  light: [[255, 255, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
  dark: [[17, 21, 27], [24, 58, 92], [36, 108, 160], [110, 178, 226], [232, 244, 255]],
};
const LESS = [33, 102, 172];
const MORE = [196, 96, 10];

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function mixed(from, to, share) {
  return from.map((value, i) => Math.round(value + (to[i] - value) * share));
}

// The colour of a weight from 0 to 1: [red, green, blue].
function weightColour(weight) {
  const ramp = isDark() ? RAMPS.dark : RAMPS.light;
  const place = Math.min(Math.max(weight, 0), 1) * (ramp.length - 1);
  const below = Math.min(Math.floor(place), ramp.length - 2);
  return mixed(ramp[below], ramp[below + 1], place - below);
}

// The colour of a difference from -1 to 1.
function differenceColour(difference) {
  const none = isDark() ? RAMPS.dark[0] : RAMPS.light[0];
  const share = Math.min(Math.sqrt(Math.abs(difference)), 1);
  return mixed(none, difference < 0 ? LESS : MORE, share);
}

function css(colour) {
  return `rgb(${colour.join(",")})`;
}

// Black or white, whichever can be read on a colour.
function inkOn(colour) {
  return 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2] > 140 ? "#17202c" : "#ffffff";
}
