// Keys, the brush of the histogram, and folding of all quotes. Every page works without this file.
"use strict";

const items = () => [...document.querySelectorAll("[data-item]")];

function move(step) {
  const all = items();
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
  "/": () => { const box = document.getElementById("q"); box.focus(); box.select(); },
  j: () => move(1),
  k: () => move(-1),
  o: fold,
  u: () => history.back(),
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.matches("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  const action = keys[event.key];
  if (action) { event.preventDefault(); action(); }
});

// A span of the histogram is chosen by dragging over it; a click follows the link of one bar.
for (const histogram of document.querySelectorAll("svg[data-brush]")) {
  const bars = [...histogram.querySelectorAll("a")];
  let from = -1;
  const at = (event) => {
    const box = histogram.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * bars.length);
    return Math.min(Math.max(place, 0), bars.length - 1);
  };
  const paint = (to) => bars.forEach((bar, n) =>
    bar.classList.toggle("is-brushed", from >= 0 && n >= Math.min(from, to) && n <= Math.max(from, to)));
  histogram.addEventListener("dragstart", (event) => event.preventDefault());
  histogram.addEventListener("pointerdown", (event) => { if (event.isPrimary) from = at(event); });
  histogram.addEventListener("pointermove", (event) => { if (from >= 0) paint(at(event)); });
  window.addEventListener("pointercancel", () => { from = -1; paint(-1); });
  window.addEventListener("pointerup", (event) => {
    if (from < 0) return;
    const to = at(event), first = Math.min(from, to), last = Math.max(from, to);
    from = -1;
    if (first === last) { paint(-1); return; }
    const address = histogram.dataset.brush
      .replace("SINCE", bars[first].dataset.since).replace("UNTIL", bars[last].dataset.until);
    histogram.addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
    location.assign(address);
  });
}

// Who comes by a citation sees its bytes, also where they lie in something folded.
const cited = document.getElementById("cited");
if (cited) {
  for (let fold = cited.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  cited.scrollIntoView({ block: "center" });
}
