// "Why?": tabs about the sentence that the page inspects.

// The id of a tab → the function that shows its panel, which is "NAME-panel".
const WHY_TABS = { "why-not": showWhyNot, inside: showInside, "switch-off": showSwitches };

// Choose a tab: only its panel is visible, and only it is drawn.
function chooseTab(name) {
  view.tab = name;
  writeLink();
  showWhy();
}

function showWhy() {
  byId("why").hidden = page.inspection === null || page.source.isFrozen;
  for (const name of Object.keys(WHY_TABS)) {
    const isChosen = name === view.tab;
    byId(name).ariaSelected = String(isChosen);
    byId(name).tabIndex = isChosen ? 0 : -1;
    byId(`${name}-panel`).hidden = !isChosen;
  }
  showHeadsOff();
  if (!byId("why").hidden) {
    WHY_TABS[view.tab]();
  }
}

// The arrow keys choose the tab beside, as in the ARIA pattern of tabs.
function moveBetweenTabs(event) {
  const names = Object.keys(WHY_TABS);
  const at = names.indexOf(view.tab);
  const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key];
  if (next !== undefined) {
    event.preventDefault();
    const name = names.at(next % names.length);
    chooseTab(name);
    byId(name).focus();
  }
}

// Ask the source for what a tab shows, once its panel is visible, or when nothing was typed for
// a while: somebody may print the page. Return null if that fails, which `note` says, or if the
// tab has asked for something else meanwhile.
const questions = {}; // the name of a tab → its latest question

async function askWhenVisible(name, key, ask, note) {
  const { inspection } = page;
  const latest = questions[name];
  if (latest?.inspection === inspection && latest.key === key) {
    return null; // the answer is on its way
  }
  latest?.controller.abort();
  const question = { inspection, key, controller: new AbortController() };
  questions[name] = question;
  const { signal } = question.controller;
  const panel = byId(`${name}-panel`);
  panel.classList.add("pending");
  try {
    await Promise.race([becomeVisible(panel), pauseInTyping(signal)]);
    signal.throwIfAborted();
    return await ask(signal);
  } catch (error) {
    if (error instanceof Unreachable) {
      setTimeout(() => page.inspection === inspection && showWhy(), RETRY);
    }
    note.textContent = error.name === "AbortError" ? note.textContent : describeError(error);
    return null;
  } finally {
    if (questions[name] === question) {
      panel.classList.remove("pending");
      delete questions[name];
    }
  }
}

function addWhyListeners() {
  addInsideListeners();
  addSwitchListeners();
  byId("why-tabs").addEventListener("keydown", moveBetweenTabs);
  for (const name of Object.keys(WHY_TABS)) {
    byId(name).addEventListener("click", () => chooseTab(name));
  }
  addWhyNotListeners();
}
