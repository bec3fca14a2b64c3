// Keys, folding of all quotes, the brush of the histogram, and searches without a new page.
// Every page works without this file.
"use strict";

function move(step) {
  const all = [...document.querySelectorAll("[data-item]")];
  if (!all.length) return;
  const active = document.activeElement;
  let at = all.indexOf(active);
  if (at < 0) {
    const below = all.findIndex((item) => item.getBoundingClientRect().top > 80);
    at = step > 0 ? (below < 0 ? all.length : below) - 1 : below < 0 ? all.length : below;
  }
  const item = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  item.focus({ preventScroll: true });
  (item.closest("article, .turn, li") || item).scrollIntoView({ block: "nearest" });
}

function fold() {
  const quotes = [...document.querySelectorAll("details.quote")];
  const open = quotes.some((quote) => !quote.open);
  for (const quote of quotes) quote.open = open;
}

const keys = {
  "/": () => {
    const box = document.getElementById("q");
    box.focus();
    box.select();
  },
  j: () => move(1),
  k: () => move(-1),
  o: fold,
  u: () => history.back(),
  n: () => document.querySelector("a[rel=next]")?.click(),
  p: () => document.querySelector("a[rel=prev]")?.click(),
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.matches("input, textarea, select, [contenteditable]")) {
    if (event.key !== "Escape") return;
    // A browser would empty the box, beside the hits for its words.
    if (target.type === "search") event.preventDefault();
    target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  const action = keys[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

// A span of the histogram is chosen by dragging over it; a click follows the link of one bar.
let histogram = null,
  from = -1,
  isDragged = false;
const bars = () => [...histogram.querySelectorAll("a")];

function barAt(event) {
  const box = histogram.getBoundingClientRect(),
    count = bars().length;
  return Math.min(
    Math.max(Math.floor(((event.clientX - box.left) / box.width) * count), 0),
    count - 1,
  );
}

function paint(to) {
  const [first, last] = [Math.min(from, to), Math.max(from, to)];
  bars().forEach((bar, n) =>
    bar.classList.toggle("is-brushed", to >= 0 && n >= first && n <= last),
  );
}

document.addEventListener("dragstart", (event) => {
  if (histogram) event.preventDefault();
});
document.addEventListener("pointerdown", (event) => {
  histogram = event.isPrimary ? event.target.closest("svg[data-brush]") : null;
  isDragged = false;
  if (histogram) from = barAt(event);
});
document.addEventListener("pointermove", (event) => {
  if (histogram) paint(barAt(event));
});
document.addEventListener("pointercancel", () => {
  if (histogram) paint(-1);
  histogram = null;
});
document.addEventListener("pointerup", (event) => {
  if (!histogram) return;
  const to = barAt(event),
    [first, last] = [bars()[Math.min(from, to)], bars()[Math.max(from, to)]];
  const address = histogram.dataset.brush;
  paint(-1);
  histogram = null;
  isDragged = first !== last;
  if (isDragged)
    visit(address.replace("SINCE", first.dataset.since).replace("UNTIL", last.dataset.until));
});
document.addEventListener("click", (event) => {
  const bar = event.target.closest("svg[data-brush] a");
  if (!bar || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (!isDragged) visit(bar.getAttribute("href"));
});

// Searches replace the hits of the page by htmx, which is on pages that search. Only those doors to HTML stay open
// behind which nothing runs: they parse an answer into a document that is not shown.
const PARSERS = ["Document parseHTMLUnsafe", "DOMParser parseFromString"];
window.trustedTypes?.createPolicy("default", {
  createHTML: (html, _type, sink) => (PARSERS.includes(sink) ? html : null),
});

// Back shows a page where it was left: htmx fetches it again, and a browser knows no place in that.
const places = new Map();
const address = () => location.pathname + location.search;
let shown = address(),
  isRestoring = false;
addEventListener("popstate", (event) => {
  isRestoring = Boolean(event.state?.htmx);
});
addEventListener(
  "scroll",
  () => {
    if (!isRestoring) places.set(shown, scrollY);
  },
  { passive: true },
);
for (const change of ["htmx:pushedIntoHistory", "htmx:replacedInHistory"])
  document.addEventListener(change, () => {
    shown = address();
  });
document.addEventListener("htmx:historyRestore", () => {
  shown = address();
  isRestoring = false;
  scrollTo(0, places.get(shown) ?? 0);
});

// A page that is asked for comes before hits for words that were typed before: they neither arrive later nor begin.
let isTyping = false;
document.addEventListener("input", (event) => {
  if (event.target.id === "q") isTyping = true;
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const box = document.getElementById("q");
  if (event.detail.elt === box) {
    if (!isTyping) event.preventDefault();
  } else if (box) {
    isTyping = false;
    htmx.trigger(box, "htmx:abort");
  }
});

function visit(address) {
  if (window.htmx) htmx.ajax("GET", address, { target: "body", push: address });
  else location.assign(address);
}

// What scrolls sideways can be scrolled by keys.
function reachScrollers() {
  for (const part of document.querySelectorAll("pre, .wide")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
}
reachScrollers();
addEventListener("resize", reachScrollers);
document.addEventListener("toggle", reachScrollers, true);

document.addEventListener("htmx:afterSettle", () => {
  reachScrollers();
  document.getElementById("said").textContent = document.title;
  const known = document.querySelector("link[rel=alternate]"),
    feed = document.getElementById("feed");
  if (known && feed) known.href = feed.href;
});
for (const fault of ["htmx:responseError", "htmx:sendError", "htmx:historyCacheMissLoadError"])
  document.addEventListener(fault, (event) =>
    location.assign(event.detail.pathInfo?.finalRequestPath ?? event.detail.path),
  );

// Who comes to a mail of a thread sees it in full.
function openTarget() {
  const whole = document.querySelector(":target > details.whole");
  if (!whole) return;
  whole.open = true;
  whole.parentElement.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();

// Who comes by a citation sees its bytes, also where they lie in something folded.
const cited = document.getElementById("cited");
if (cited) {
  for (let fold = cited.closest("details"); fold; fold = fold.parentElement.closest("details"))
    fold.open = true;
  cited.scrollIntoView({ block: "center" });
}
