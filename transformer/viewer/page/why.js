// "Why?": tabs about the sentence that the page inspects.

// The id of a tab → the function that shows its panel, which is "NAME-panel".
const WHY_TABS = { "why-not": showWhyNot };

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

function addWhyListeners() {
  byId("why-tabs").addEventListener("keydown", moveBetweenTabs);
  for (const name of Object.keys(WHY_TABS)) {
    byId(name).addEventListener("click", () => chooseTab(name));
  }
}

// "Why not …?": a translation that was expected, and why the search did not find it.

function showWhyNot() {
}
