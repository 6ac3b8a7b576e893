// The card of a lesson: it sets the view as a link does, and asks a question.

// `before`: the settings when the first one was opened; null: a link has opened it.
const lesson = { number: null, before: null };

function fillTemplate(text, values) {
  return text.replace(/{(\w+)}/g, (_, name) => values[name]);
}

// The number of lessons: a file does not have the section “Why?”.
function countLessons() {
  return LESSON_VIEWS.filter(({ show }) => show !== "why" || !page.source.isFrozen).length;
}

// The view of a lesson as a link: the view as it is, with the fields of the lesson.
function linkOfLesson({ fields }) {
  const first = 1 - page.models[view.model].layers; // of the encoder
  const link = new URLSearchParams(viewToHash().slice(1));
  for (const name of ["l", "r", "q", "d"]) {
    link.delete(name);
  }
  for (const [name, value] of Object.entries(fields)) {
    link.set(name, value === "first" ? first : value === "unsure" ? findUnsureStep() : value);
  }
  if (!view.text.trim()) {
    link.set("t", page.source.example?.text ?? page.models[view.model].examples?.[0] ?? "");
  }
  return `#${link}`;
}

// The step whose word is the least probable, so that others are likely, too; 3 if there is none.
function findUnsureStep() {
  const probabilities = page.inspection && !isStale() ? page.inspection.probabilities(true).slice(0, -1) : [];
  return probabilities.indexOf(Math.min(...probabilities)) + 1 || 3;
}

async function openLesson(number) {
  if (lesson.number === null) {
    lesson.before = { byWords: view.byWords, showCut: view.showCut };
  }
  lesson.number = number;
  showLesson();
  pause();
  history.pushState(null, "", linkOfLesson(LESSON_VIEWS[number]));
  page.isSettled = false;
  readLink();
  await refresh();
  if (page.inspection) {
    byId(LESSON_VIEWS[number].show).scrollIntoView({ block: "start" });
  }
}

function closeLesson() {
  const { byWords, showCut } = lesson.before ?? view;
  chooseUnit(byWords);
  Object.assign(view, { showCut });
  Object.assign(lesson, { number: null, before: null });
  pause();
  page.highlight = null;
  showLesson();
  showSettings();
  show();
  if (page.inspection) {
    setHighlight(highlightOfStep());
  }
  writeLink();
  byId("lessons").focus();
}

function showLesson() {
  const { number } = lesson;
  const isOpen = number !== null;
  const wasOpen = document.body.classList.contains("has-lesson");
  document.body.classList.toggle("has-lesson", isOpen);
  byId("lesson").hidden = !isOpen;
  byId("lessons").ariaExpanded = String(isOpen);
  if (isOpen) {
    const { cards, ...texts } = LESSONS[reader.language];
    const { title, text, question } = cards[number];
    const { chapter } = LESSON_VIEWS[number];
    byId("lesson-number").textContent = fillTemplate(texts.lesson, { n: number + 1, count: countLessons() });
    byId("lesson-title").textContent = title;
    byId("lesson-text").textContent = fillTemplate(text, { beam: page.models[view.model].beam });
    byId("lesson-question").textContent = question;
    const more = fillTemplate(texts.more, { chapter: Number(chapter.slice(0, 2)) });
    byId("lesson-more").hidden = !page.source.docs;
    replaceChildren(byId("lesson-more"), page.source.docs ? linkToDocument(`walkthrough/${texts.walkthrough}/${chapter}`, more) : "");
    for (const name of ["previous", "next", "close"]) {
      byId(`${name}-lesson`).ariaLabel = texts[name];
    }
    byId("previous-lesson").ariaDisabled = String(number === 0);
    byId("next-lesson").ariaDisabled = String(number === countLessons() - 1);
  }
  if (isOpen !== wasOpen) {
    dispatchEvent(new Event("resize")); // the page becomes narrower
  }
}

function addLessonListeners() {
  byId("lessons").addEventListener("click", () => (lesson.number === null ? openLesson(0) : closeLesson()));
  byId("close-lesson").addEventListener("click", closeLesson);
  byId("previous-lesson").addEventListener("click", () => lesson.number > 0 && openLesson(lesson.number - 1));
  byId("next-lesson").addEventListener("click", () => lesson.number < countLessons() - 1 && openLesson(lesson.number + 1));
}
