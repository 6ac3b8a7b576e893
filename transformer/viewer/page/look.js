// Requests what the page shows, and handles choices; main.js draws the answer.

const DEBOUNCE = 250; // milliseconds after the last key
const RETRY = 1500; // milliseconds between two tries to reach the server

function say(text, isBad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", isBad);
}

function asked(model) {
  const { text, prefix, target, padding } = view;
  return { model, text: text.split(/\s+/).join(" ").trim(), prefix, target, padding };
}

// What is shown of another text or model, until the answer comes, is marked.
function isStale() {
  const { sight, other } = page;
  return sight !== null && (sight.text !== asked(view.model).text || sight.model !== view.model || (other ? other.model : -1) !== view.other);
}

function markStale() {
  document.body.classList.toggle("stale", isStale());
  byId("stale").hidden = !isStale();
  byId("stale").textContent = isStale() ? `The results below are for “${page.sight.text}”, by ${page.models[page.sight.model].name}.` : "";
}

// Ask anew; what was asked before is given up.
async function look() {
  clearTimeout(page.timer);
  page.asking?.abort();
  const asking = new AbortController();
  page.asking = asking;
  writeLink();
  markStale();
  if (!view.text.trim()) {
    page.sight = null;
    say("");
    show();
    return;
  }
  say("Translating …");
  try {
    await askModels(asking.signal);
    await sayBest(asking.signal);
    const sight = await page.source.see(asked(view.model), asking.signal);
    const other = view.other < 0 ? null : await page.source.see({ ...asked(view.other), prefix: [], target: null }, asking.signal);
    if (page.asking === asking) {
      Object.assign(page, { sight, other, lit: null });
      say("");
      show();
      byId("heard").textContent = `Translation: ${textOf(sight)}`;
    }
  } catch (error) {
    if (page.asking === asking) {
      await failed(error);
    }
  }
}

// Say the best translation at once: what can be seen of it takes longer.
async function sayBest(signal) {
  if (!page.source.isFrozen && !view.prefix.length && !view.target) {
    const [best] = await page.source.translate(asked(view.model), signal);
    say(`${best.text} …`);
  }
}

function textOf(sight) {
  return sight.pack.target.words.slice(0, -1).join(" ");
}

// A choice that fails is taken back; a sentence that is refused leaves nothing below it.
async function failed(error) {
  if (error.name === "AbortError") {
    return;
  }
  if (error instanceof Unreachable || error.message.startsWith("The field model")) {
    page.timer = setTimeout(recover, RETRY);
  } else if (view.prefix.length || view.target) {
    Object.assign(view, FREE);
    await look();
  } else {
    page.sight = null;
    show();
  }
  say(error.message, true);
}

async function recover() {
  try {
    await askModels();
  } catch {
    page.timer = setTimeout(recover, RETRY);
    return;
  }
  await look();
}

// The models of the source, which may have been started again with others. Where two
// have the same name, a number tells them apart.
async function askModels(signal) {
  const before = page.models.map(({ name }) => name).join();
  const models = await page.source.models(signal);
  const isTwice = (name) => models.filter((each) => each.name === name).length > 1;
  page.models = models.map((each, i) => (isTwice(each.name) ? { ...each, name: `${each.name} (${i + 1})` } : each));
  if (page.models.map(({ name }) => name).join() !== before) {
    Object.assign(page, { sight: null, other: null });
    view.model = Math.min(view.model, page.models.length - 1);
    view.other = page.models.length > 1 && view.other < page.models.length ? view.other : -1;
    showSettings();
    show();
  }
}

// A model trained on single sentences may translate only the first of several.
function showRemark() {
  byId("several").hidden = !/(\n|[.!?…]["”’»)]*\s)\s*\S/.test(view.text.trim());
}

function typed() {
  view.text = cut(byId("text").value);
  showRemark();
  if (byId("text").value !== view.text) {
    byId("text").value = view.text;
  }
  Object.assign(view, FREE);
  markStale();
  clearTimeout(page.timer);
  page.asking?.abort();
  page.timer = setTimeout(look, DEBOUNCE);
}

// The attributes of what chooses a translation; what the file lacks is disabled.
function choosing(choice) {
  const isThere = page.source.has({ ...asked(view.model), ...choice });
  return { onclick: isThere ? () => choose(choice) : () => say(NOT_IN_FILE), "aria-disabled": isThere ? null : "true" };
}

// What is marked stale is of another text, and chooses nothing.
function choose(choice) {
  if (!isStale()) {
    Object.assign(view, choice);
    look();
  }
}

// Back to the model's own translation; the button for that goes, the focus does not.
function free() {
  if (document.activeElement === byId("free")) {
    itemsOf(byId("words")).find((item) => item.tabIndex === 0).focus();
  }
  choose(FREE);
}
