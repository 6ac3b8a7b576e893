// The player: one clock for the whole page. `view.step` counts the words, or pieces, of the
// translation; 0 is the last layer of the encoder, −1 the one before; null: all at once.

const STEP_TIME = 900; // milliseconds at normal speed
const LEAP = 5; // steps

// `translating`: the head that was chosen when the clock went back to the encoder.
const player = { isPlaying: false, speed: 1, timer: 0, inspection: null, translating: null };

function firstStep() {
  return 1 - page.inspection.layersOf("encoder");
}

function lastStep() {
  return page.inspection.spans("target", view.byWords).length;
}

// The pieces of the step: the first, and the one after the last.
function spanOfStep() {
  return page.inspection.spans("target", view.byWords)[view.step - 1];
}

// The row of the heat map that belongs to the step.
function highlightOfStep() {
  return view.step > 0 && view.kind !== "encoder" ? { row: view.step - 1 } : null;
}

// Keep the clock within the translation, and show the encoder in its own steps only. Another
// translation is not played at once.
function fitClock() {
  if (player.inspection !== page.inspection) {
    player.inspection = page.inspection;
    byId("step-heard").textContent = "";
    pause();
  }
  if (view.step === null) {
    return;
  }
  view.step = Math.min(Math.max(view.step, firstStep()), lastStep());
  const isEncoding = view.step < 1;
  if (isEncoding && view.kind !== "encoder") {
    player.translating = { kind: view.kind, layer: view.layer, head: view.head };
    Object.assign(view, { kind: "encoder", head: "mean" });
  } else if (!isEncoding && view.kind === "encoder") {
    Object.assign(view, player.translating ?? { kind: "cross", layer: page.inspection.layersOf("cross") - 1, head: "mean" });
  }
  if (isEncoding) {
    view.layer = view.step - firstStep();
  }
}

// A chosen head moves the clock to or from the encoder.
function fitClockToHead() {
  if (view.step !== null && view.kind === "encoder") {
    view.step = view.layer + firstStep();
  } else if (view.step !== null) {
    view.step = Math.max(view.step, 1);
  }
}

// The clock counts words or pieces.
function chooseUnit(byWords) {
  if (page.inspection && view.step > 0 && byWords !== view.byWords) {
    const [start, end] = spanOfStep();
    view.step = byWords ? page.inspection.spans("target", true).findIndex((span) => start < span[1]) + 1 : end;
  }
  view.byWords = byWords;
}

// Move the clock. `highlight`: what the heat map highlights, if it is not just the row.
function moveClock(step, { highlight = undefined, isAnimated = false } = {}) {
  const before = placesOfHypotheses();
  const [kind, layer] = [view.kind, view.layer];
  view.step = step;
  fitClock();
  if (kind !== view.kind || layer !== view.layer) {
    page.highlight = null;
    showAttention();
  }
  byId("cell").ariaLive = "off"; // the step is said, or the film runs
  setHighlight(highlight ?? highlightOfStep());
  byId("cell").ariaLive = "polite";
  showClock();
  writeLinkSoon();
  if (isAnimated && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    animateStep(before, player.speed);
  }
}

// Choose a step, which is said.
function chooseStep(step, options) {
  pause();
  moveClock(step, options);
  const position = step > 0 ? describePosition() : ""; // in the encoder, the text says it
  byId("step-heard").textContent = [position, byId("step-text").textContent, describeNextWords()].filter(Boolean).join(" ");
}

// After all at once comes the beginning.
function stepBy(count) {
  const start = count > 0 ? firstStep() - 1 : lastStep() + 1;
  chooseStep((view.step ?? start) + count, { isAnimated: count === 1 });
  scrollToStage();
  scrollToStep();
}

function leapTo(step) {
  chooseStep(step);
  scrollToStage();
  scrollToStep();
}

// Choose the step of a row of the heat map.
function chooseRow(highlight) {
  if (highlight?.row !== undefined && view.kind !== "encoder") {
    chooseStep(highlight.row + 1, { highlight });
  }
}

function releaseClock() {
  pause();
  moveClock(null);
}

// Show the clock everywhere but in the heat map.
function showClock() {
  showStage();
  showPlayer();
  const { inspection } = page;
  const isStep = view.step > 0;
  const [start, end] = isStep ? spanOfStep() : [0, 0];
  const word = inspection.spans("target", true).findIndex((span) => span[0] <= start && start < span[1]);
  const displayed = inspection.data.target.ids.slice(0, end).join();
  const node = isStep ? hypothesesAfter(inspection, end).find(({ ids }) => ids.join() === displayed)?.node.number : undefined;
  const mark = (selector, isNow) => document.querySelectorAll(selector).forEach((element, i) => element.classList.toggle("now", isStep && isNow(element, i)));
  mark("#words > *", (_, i) => i === view.step - 1);
  mark("#translation [data-word]", (element) => Number(element.dataset.word) === word);
  mark("#tree .node", (element) => Number(element.dataset.node) === node);
  scrollToWord(byId("translation"), byId("translation").querySelector(".now"));
}

// Scroll a text until a word of it is in view.
function scrollToWord(text, word) {
  if (word) {
    const [frame, box] = [text, word].map((element) => element.getBoundingClientRect());
    text.scrollTop += Math.min(box.top - frame.top, 0) + Math.max(box.bottom - frame.bottom, 0);
  }
}

function describePosition() {
  const { step } = view;
  if (step === null) {
    return say`${lastStep()} steps.`;
  }
  return step > 0 ? say`Step ${step} of ${lastStep()}.` : say`Encoder, layer ${step - firstStep() + 1} of ${page.inspection.layersOf("encoder")}.`;
}

function showPlayer() {
  const { step } = view;
  const scrubber = byId("scrubber");
  scrubber.min = firstStep();
  scrubber.max = lastStep();
  scrubber.value = step ?? lastStep();
  const word = step > 0 ? page.inspection.labels("target", view.byWords)[step - 1] : "";
  scrubber.setAttribute("aria-valuetext", `${describePosition()} ${word}`.trim());
  const [number, count] = step > 0 ? [step, lastStep()] : [step - firstStep() + 1, page.inspection.layersOf("encoder")];
  byId("position").textContent = step === null ? say`${lastStep()} steps` : say`${number} of ${count}`;
  byId("position").dataset.of = step === null ? "" : step > 0 ? say`step` : say`layer`;
  byId("play").ariaLabel = player.isPlaying ? say`Pause` : say`Play`;
  byId("player").classList.toggle("playing", player.isPlaying);
  byId("first-step").ariaDisabled = String(step === firstStep());
  byId("step-back").ariaDisabled = String(step === firstStep());
  byId("step-forward").ariaDisabled = String(step === lastStep());
  byId("last-step").ariaDisabled = String(step === lastStep());
}

// Play from the step, or from the beginning if there is none, or it is the last one.
function togglePlay() {
  if (player.isPlaying) {
    pause();
    return;
  }
  player.isPlaying = true;
  byId("step-heard").textContent = "";
  playStep(view.step === null || view.step === lastStep() ? firstStep() : view.step + 1);
  scrollToStage();
}

function playStep(step) {
  moveClock(step, { isAnimated: true });
  if (step === 1) { // the stage has become higher
    scrollToStage();
  }
  scrollToStep();
  const continuePlaying = step < lastStep() ? () => playStep(step + 1) : pause;
  player.timer = setTimeout(continuePlaying, STEP_TIME / player.speed);
}

function pause() {
  clearTimeout(player.timer);
  player.isPlaying = false;
  if (page.inspection) {
    showPlayer();
  }
}

// Whether the focus is in the text that the page opens with, which is selected: a space
// would only delete it.
function isExampleSelected() {
  const { value, selectionStart, selectionEnd } = byId("text");
  return document.activeElement === byId("text") && value === page.source.example?.text && selectionEnd - selectionStart === value.length;
}

// The keys of the player work in the whole page, unless what has the focus uses them.
function handlePlayerKey(event) {
  const { key, shiftKey, target } = event;
  const isOff = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked || !page.inspection || isStale();
  const isUsed = key === " "
    ? !isExampleSelected() && target.closest("textarea, select, input:not([type='range']), button, summary, a, [role='button']")
    : target !== document.body && !target.closest("#player button");
  const leap = shiftKey ? LEAP : 1;
  const actions = {
    " ": togglePlay,
    ArrowLeft: () => stepBy(-leap),
    ArrowRight: () => stepBy(leap),
    Home: () => leapTo(firstStep()),
    End: () => leapTo(lastStep()),
  };
  if (!isOff && !isUsed && actions[key]) {
    event.preventDefault();
    actions[key]();
  }
}

function addPlayerListeners() {
  byId("play").addEventListener("click", togglePlay);
  byId("first-step").addEventListener("click", () => leapTo(firstStep()));
  byId("step-back").addEventListener("click", () => stepBy(-1));
  byId("step-forward").addEventListener("click", () => stepBy(1));
  byId("last-step").addEventListener("click", () => leapTo(lastStep()));
  byId("scrubber").addEventListener("input", (event) => {
    const step = Number(event.target.value); // before `pause` shows the old one
    pause();
    moveClock(step);
    scrollToStage();
    scrollToStep();
  });
  byId("speed").addEventListener("change", (event) => { player.speed = Number(event.target.value); });
  byId("words").addEventListener("click", ({ target }) => {
    const place = [...byId("words").children].findIndex((piece) => piece.contains(target));
    if (place >= 0 && !target.closest("button")) {
      chooseStep(place + 1);
    }
  });
  byId("translation").addEventListener("click", ({ target }) => {
    if ("word" in target.dataset) {
      pause(); // the list of words for its place is said, not the step
      moveClock(view.byWords ? Number(target.dataset.word) + 1 : page.inspection.spans("target", true)[target.dataset.word][1]);
    }
  });
  document.addEventListener("keydown", handlePlayerKey);
}
