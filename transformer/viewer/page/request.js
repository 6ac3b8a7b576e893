// Request what the page shows, and handle choices; main.js draws the answer.

const DEBOUNCE = 250; // milliseconds after the last key
const RETRY = 1500; // milliseconds between two attempts to reach the server

function showStatus(text, isBad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", isBad);
}

function makeRequest(model) {
  const { text, prefix, target, padding } = view;
  return { model, text: text.split(/\s+/).join(" ").trim(), prefix, target, padding };
}

// Until the answer comes, the page shows results of another text or model.
function isStale() {
  const { inspection, other } = page;
  return inspection !== null && (inspection.text !== makeRequest(view.model).text || inspection.model !== view.model || (other ? other.model : -1) !== view.other);
}

function markStale() {
  document.body.classList.toggle("stale", isStale());
  byId("stale").hidden = !isStale();
  byId("stale").textContent = isStale() ? `The results below are for “${page.inspection.text}”, by ${page.models[page.inspection.model].name}.` : "";
}

// Request a translation and its inspection; abort the previous request.
async function refresh() {
  clearTimeout(page.timer);
  page.request?.abort();
  const request = new AbortController();
  page.request = request;
  writeLink();
  markStale();
  if (!view.text.trim()) {
    page.inspection = null;
    showStatus("");
    show();
    return;
  }
  showStatus("Translating …");
  try {
    await fetchModels(request.signal);
    await showBestTranslation(request.signal);
    const inspection = await page.source.inspect(makeRequest(view.model), request.signal);
    const other = view.other < 0 ? null : await page.source.inspect({ ...makeRequest(view.other), prefix: [], target: null }, request.signal);
    if (page.request === request) {
      Object.assign(page, { inspection, other, highlight: null });
      showStatus("");
      show();
      byId("heard").textContent = `Translation: ${textOf(inspection)}`;
      await showWithout(inspection, request.signal);
    }
  } catch (error) {
    if (page.request === request) {
      await handleError(error);
    }
  }
}

// Some sources compute the effect of leaving out words only after the rest.
async function showWithout(inspection, signal) {
  if (!inspection.data.without) {
    inspection.data.without = await page.source.leaveOutWords(inspection, signal);
    showBars();
  }
}

// Show the best translation at once: its inspection takes longer.
async function showBestTranslation(signal) {
  if (!page.source.isFrozen && !view.prefix.length && !view.target) {
    const [best] = await page.source.translate(makeRequest(view.model), signal);
    showStatus(`${best.text} …`);
  }
}

function textOf(inspection) {
  return inspection.data.target.words.slice(0, -1).join(" ");
}

// If a choice fails, return to the best translation; if the sentence is rejected, show nothing.
async function handleError(error) {
  if (error.name === "AbortError") {
    return;
  }
  if (error instanceof Unreachable || error.message.startsWith("Expected model")) {
    page.timer = setTimeout(recover, RETRY);
  } else if (view.prefix.length || view.target) {
    Object.assign(view, NO_CHOICE);
    await refresh();
  } else {
    page.inspection = null;
    show();
  }
  showStatus(error.message, true);
}

async function recover() {
  try {
    await fetchModels();
  } catch {
    page.timer = setTimeout(recover, RETRY);
    return;
  }
  await refresh();
}

// Fetch the models of the source, which may have been restarted with other models. A number
// distinguishes models of the same name.
async function fetchModels(signal) {
  const before = page.models.map(({ name }) => name).join();
  const models = await page.source.models(signal);
  const isAmbiguous = (name) => models.filter((model) => model.name === name).length > 1;
  page.models = models.map((model, i) => (isAmbiguous(model.name) ? { ...model, name: `${model.name} (${i + 1})` } : model));
  if (page.models.map(({ name }) => name).join() !== before) {
    Object.assign(page, { inspection: null, other: null });
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

function handleInput() {
  view.text = truncateText(byId("text").value);
  showRemark();
  if (byId("text").value !== view.text) {
    byId("text").value = view.text;
  }
  Object.assign(view, NO_CHOICE);
  markStale();
  clearTimeout(page.timer);
  page.request?.abort();
  page.timer = setTimeout(refresh, DEBOUNCE);
}

// The attributes of a button that chooses a translation; it is disabled if the file lacks it.
function choiceAttributes(choice) {
  const isThere = page.source.has({ ...makeRequest(view.model), ...choice });
  return { onclick: isThere ? () => choose(choice) : () => showStatus(NOT_IN_FILE), "aria-disabled": isThere ? null : "true" };
}

// Stale results belong to another text: they cannot be chosen.
function choose(choice) {
  if (!isStale()) {
    Object.assign(view, choice);
    refresh();
  }
}

// Return to the best translation. Its button disappears, so the focus moves to the words.
function resetChoice() {
  if (document.activeElement === byId("reset-choice")) {
    itemsOf(byId("words")).find((item) => item.tabIndex === 0).focus();
  }
  choose(NO_CHOICE);
}
