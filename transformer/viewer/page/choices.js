// The list under a word of the translation: the words that may stand in its place.

const CHOICE_DIGITS = 3; // of a probability

async function openChoices(button) {
  const { inspection } = page;
  const { word } = button.dataset;
  const list = byId("word-list");
  closeChoices();
  button.ariaExpanded = "true";
  Object.assign(list, { hidden: false, ariaLabel: say`Words in place of ${quote(button.textContent)}`, lang: byId("translation").lang });
  list.dataset.word = word;
  list.replaceChildren("…");
  placeChoices(list, button);
  try {
    inspection.choices[word] ??= await page.source.listWords(inspection, Number(word));
  } catch (error) {
    closeChoices();
    showStatus(describeError(error), true);
    return;
  }
  if (page.inspection === inspection && list.dataset.word === word) {
    const [, end] = inspection.spans("target", true)[word];
    const buttons = inspection.choices[word].map((choice, i) => makeChoice(choice, i, isOwnWord(inspection, choice, end)));
    replaceChildren(list, [...buttons, page.source.isFrozen ? "" : makeWordBox(Number(word))]);
    itemsOf(list)[0].focus({ preventScroll: true });
  }
}

// Whether a word of the list is the one that the translation has; its pieces are before `end`.
function isOwnWord({ data }, { ids, isEnd }, end) {
  return !isEnd && ids.join() === data.target.ids.slice(0, end).join();
}

// The choice of a word: keep the words before it, and decode the rest again; or end there.
function wordChoice({ ids, isEnd }) {
  return isEnd ? { prefix: [], target: ids } : { prefix: ids, target: null };
}

function makeChoice(choice, index, isOwn) {
  const { word, probability } = choice;
  const share = makeElement("span", { class: "share" });
  share.style.width = `${(100 * probability).toFixed(1)}%`;
  const { onclick, ...attributes } = isOwn ? {} : choiceAttributes(wordChoice(choice));
  const take = () => { closeChoices(); onclick?.(); };
  return makeElement("button", { type: "button", class: isOwn ? "chosen" : null, "data-choice": index, "aria-current": isOwn ? "true" : null, onclick: take, ...attributes },
    makeElement("span", {}, word || "⟨end⟩"), makeElement("span", { class: "number" }, formatProbability(probability, CHOICE_DIGITS)), share);
}

// A box for a word that is not in the list; Enter takes it.
function makeWordBox(word) {
  const text = say`another word …`;
  const take = (event) => {
    event.stopPropagation(); // the arrow keys are for the text
    if (event.key === "Escape") {
      closeChoices();
    } else if (event.key === "Enter" && !event.isComposing && event.target.value.trim()) {
      chooseTypedWord(word, event.target.value.trim());
    }
  };
  return makeElement("input", { type: "text", maxlength: 100, placeholder: text, "aria-label": text, spellcheck: "false", onkeydown: take, onfocusin: (event) => event.stopPropagation() });
}

// Keep the words before a word, put a typed one in its place, and decode the rest again.
async function chooseTypedWord(word, typed) {
  const { inspection } = page;
  const [start] = inspection.spans("target", true)[word];
  try {
    const { target } = await page.source.explain({ text: inspection.text, model: inspection.model, target: typed });
    if (page.inspection !== inspection) {
      return;
    }
    closeChoices();
    if (target.pieces.includes("⟨unk⟩")) {
      showStatus(say`Not in the vocabulary, so the model cannot write it: ${quote(typed)}.`, true);
    } else {
      choose({ prefix: [...inspection.data.target.ids.slice(0, start), ...target.ids.slice(0, -1)], target: null });
    }
  } catch (error) {
    showStatus(describeError(error), true);
  }
}

// Below the word, inside the pane.
function placeChoices(list, button) {
  const pane = byId("target-pane").getBoundingClientRect();
  const box = [...button.getClientRects()].pop();
  list.style.left = `${Math.max(Math.min(box.left - pane.left, pane.width - list.offsetWidth - 8), 8)}px`;
  list.style.top = `${box.bottom - pane.top + 4}px`;
}

// Close the list. A focus inside returns to the word.
function closeChoices() {
  const list = byId("word-list");
  const button = byId("translation").querySelector("[aria-expanded='true']");
  const isFocused = list.contains(document.activeElement);
  list.hidden = true;
  delete list.dataset.word;
  if (button) {
    button.ariaExpanded = "false";
    if (isFocused) {
      button.focus({ preventScroll: true });
    }
  }
}

// Take back the latest choice, as the browser's Back button does.
function undoChoice() {
  if (history.state?.isChoice) {
    history.back();
  } else if (hasChoice()) {
    resetChoice();
  }
}

function addChoiceListeners() {
  const list = byId("word-list");
  byId("translation").addEventListener("click", ({ target }) => {
    if ("word" in target.dataset && getSelection().isCollapsed) {
      openChoices(target);
    }
  });
  byId("translation").addEventListener("scroll", closeChoices);
  list.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      closeChoices();
    }
  });
  list.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !list.contains(relatedTarget)) {
      closeChoices();
    }
  });
  document.addEventListener("click", ({ target }) => {
    if (!list.contains(target) && !("word" in target.dataset)) {
      closeChoices();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.target.matches("textarea, input, select")) {
      event.preventDefault();
      undoChoice();
    }
  });
}
