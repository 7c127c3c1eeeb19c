"""The look and the behaviour of the report: its style sheet and its script. No figures and no words of the study."""

from __future__ import annotations

STYLE = """
:root {
  --page: #ffffff; --card: #f4f6f8; --text: #1b1f24; --quiet: #515c66; --line: #d3d9df; --link: #00598c;
  --yes: #00573e; --yes-card: #dff3ea; --no: #8f2f00; --no-card: #fde8dc; --open: #4f4700; --open-card: #f6f0c8;
  --below: #c9d0d7; --c-000000: var(--text); color-scheme: light;
}
:root[data-theme="dark"] {
  --page: #14171a; --card: #1d2226; --text: #e9ebed; --quiet: #a9b3bc; --line: #373f47; --link: #7cc0f0;
  --yes: #7fdcb5; --yes-card: #10352a; --no: #ffae84; --no-card: #43200f; --open: #e6d873; --open-card: #37330f;
  --below: #39424b; --c-0072B2: #4fa8e6; color-scheme: dark;
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
header, main, footer { max-width: 86rem; margin: 0 auto; padding: 0 clamp(1rem, 3vw, 2.5rem); }
header { padding-top: 2rem; position: relative; }
h1 { font-size: clamp(1.5rem, 1.1rem + 1.8vw, 2.3rem); line-height: 1.2; margin: 0 9rem .4rem 0; }
h2 {
  font-size: 1.45rem; line-height: 1.25; margin: 3.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line);
}
h3 { font-size: 1.12rem; margin: 1.8rem 0 .4rem; }
h4 { font-size: 1rem; margin: 1.1rem 0 .2rem; }
p, li, dd { max-width: 50rem; }
ul, ol { padding-left: 1.3rem; }
li { margin: .3rem 0; }
a { color: var(--link); }
a:focus-visible, button:focus-visible, summary:focus-visible, [tabindex]:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; border-radius: 3px;
}
code { background: var(--card); padding: .1em .35em; border-radius: 4px; font-size: .92em; }
pre { background: var(--card); padding: .8rem 1rem; border-radius: 8px; overflow-x: auto; max-width: 50rem; }
pre code { padding: 0; background: none; }
small, .quiet { color: var(--quiet); }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--page); padding: .5rem; z-index: 5; }
.lead { font-size: 1.08rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; list-style: none; padding: 0; margin: 1rem 0 0; }
nav li { margin: 0; }
button { font: inherit; color: inherit; cursor: pointer; }
.switch {
  position: absolute; top: 2.1rem; right: clamp(1rem, 3vw, 2.5rem);
}
.switch, .plain {
  background: var(--card); border: 1px solid var(--line); border-radius: 999px; padding: .3rem .9rem;
  min-height: 2.25rem;
}
.split { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 1rem 2.5rem; }
.split .panels { grid-template-columns: 1fr; }
.split figure { margin: 0; min-width: 0; }
figcaption { color: var(--quiet); font-size: .93rem; }
.notice { background: var(--open-card); color: var(--open); border-radius: 8px; padding: .7rem 1rem; max-width: 50rem; }
.notice strong { color: inherit; }
.scroll { overflow-x: auto; margin: .8rem 0 1.4rem; border: 1px solid var(--line); border-radius: 8px; }
.scroll.fit { max-width: max-content; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; min-width: 100%; }
caption { text-align: left; padding: .6rem .8rem; color: var(--quiet); caption-side: top; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; border-top: 1px solid var(--line); }
thead th, thead td { background: var(--card); vertical-align: bottom; }
thead th[scope="colgroup"] { text-align: center; border-left: 1px solid var(--line); }
tbody th { font-weight: 600; white-space: nowrap; }
tbody tr:has(td.wrapped) th { white-space: normal; min-width: 14rem; }
td.number { text-align: right; white-space: nowrap; }
tbody th.group { vertical-align: top; background: var(--page); }
tr.starts > * { border-top: 2px solid var(--line); }
.verdict { min-width: 9rem; padding-top: .2rem; padding-bottom: .2rem; }
.verdict summary { list-style: none; cursor: pointer; display: inline-block; }
.verdict summary::-webkit-details-marker { display: none; }
.verdict summary::after { content: " ▸"; color: var(--quiet); }
.verdict details[open] summary::after { content: " ▾"; }
.verdict p { margin: .4rem 0; font-size: .86rem; width: 17rem; white-space: normal; }
.badge { display: inline-block; border-radius: 999px; padding: .05rem .65rem; font-weight: 600; white-space: nowrap; }
.yes { background: var(--yes-card); color: var(--yes); }
.no { background: var(--no-card); color: var(--no); }
.chips { display: flex; flex-wrap: wrap; gap: .25rem; min-width: 9rem; }
.chips .badge { padding: 0 .5rem; font-size: .86rem; }
.plainly { background: var(--card); color: var(--text); box-shadow: inset 0 0 0 1px var(--line); }
.faint { color: var(--quiet); font-weight: 400; }
.open { background: var(--open-card); color: var(--open); }
ol.order { list-style: none; margin: 0; padding: 0; min-width: 12.5rem; }
ol.order li { display: flex; gap: .45rem; align-items: baseline; margin: 0; }
ol.order .value { margin-left: auto; color: var(--quiet); padding-left: .6rem; white-space: nowrap; }
ol.order .under { color: var(--no); font-weight: 600; }
.swatch { flex: none; }
[role="tablist"] {
  display: flex; flex-wrap: wrap; gap: .4rem; margin: 1rem 0 .4rem; border-bottom: 1px solid var(--line);
}
[role="tab"] {
  background: none; border: 1px solid transparent; border-bottom: none; border-radius: 8px 8px 0 0;
  padding: .5rem .95rem; min-height: 2.6rem; color: var(--link);
}
[role="tab"][aria-selected="true"] {
  background: var(--card); border-color: var(--line); color: var(--text); font-weight: 600;
}
.legend { display: flex; flex-wrap: wrap; gap: .4rem .5rem; margin: .8rem 0 .2rem; align-items: center; }
.legend button {
  display: inline-flex; align-items: center; gap: .5rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 999px; padding: .25rem .8rem; min-height: 2.25rem;
}
.legend button[aria-pressed="false"] { color: var(--quiet); text-decoration: line-through; background: none; }
.legend button[aria-pressed="false"] svg { opacity: .4; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: .3rem .8rem; }
.panel { min-height: 190px; min-width: 0; }
.pictures { width: auto; min-width: 0; }
.pictures td, .pictures thead th { text-align: center; padding: .3rem .3rem; }
.pictures tbody th { padding-left: .8rem; white-space: normal; min-width: 7rem; vertical-align: middle; }
.pictures td.first, .pictures th.first { border-left: 1px solid var(--line); padding-left: .7rem; }
.pictures img { width: 3.6rem; height: 3.6rem; image-rendering: pixelated; display: block; margin: 0 auto .15rem; }
[data-theme="dark"] .pictures img { filter: invert(1) brightness(.95); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.2rem; }
dt { font-weight: 600; }
dd { margin: 0; }
@media (max-width: 40rem) {
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; }
  tbody th { white-space: normal; } th, td { padding: .35rem .5rem; }
  h1 { margin-right: 0; margin-top: 3rem; } .switch { top: 1rem; }
}
footer { padding-top: 2rem; padding-bottom: 3rem; color: var(--quiet); }
@media print {
  .switch, nav, .legend, [role="tablist"] { display: none; }
  [role="tabpanel"] { display: block !important; }
}
"""

# in the head, before anything is drawn
EARLY = """
(() => {
  let kept = null;
  try { kept = localStorage.getItem("barymesh-theme"); } catch {}
  const dark = kept ? kept == "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
"""

# after PAINT of bokeh_plots
SCRIPT = """
const page = document.documentElement;
const shown = new Map();   // group -> documents of Bokeh that are on the page
const hidden = new Map();  // group -> names of curves that are switched off

// ---- light and dark
const button = document.querySelector(".switch");
function dress(theme) {
  page.dataset.theme = theme;
  button.textContent = theme == "dark" ? "Light page" : "Dark page";
  for (const documents of shown.values()) for (const one of documents) paint(one, colours());
}
button.addEventListener("click", () => {
  const theme = page.dataset.theme == "dark" ? "light" : "dark";
  try { localStorage.setItem("barymesh-theme", theme); } catch {}
  dress(theme);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => {
  let kept = null;
  try { kept = localStorage.getItem("barymesh-theme"); } catch {}
  if (!kept) dress(event.matches ? "dark" : "light");
});
dress(page.dataset.theme);

// ---- figures, drawn when they are about to be seen
function hide(one, names) {
  for (const model of one.all_models ?? one._all_models.values())
    if (model.type == "GlyphRenderer" && model.name) model.visible = !names.has(model.name);
}
const fingers = matchMedia("(pointer: coarse)").matches;
async function draw(row) {
  const {document: content, roots} = JSON.parse(document.getElementById(row.dataset.plots).textContent);
  const before = Bokeh.documents.length;
  await Bokeh.embed.embed_items({plots: content}, [{docid: "plots", roots, root_ids: Object.keys(roots)}]);
  for (const one of Bokeh.documents.slice(before)) {
    // a finger scrolls the page, until it is told to move a figure
    if (fingers) for (const model of one.all_models ?? one._all_models.values())
      if (model.type == "PanTool") model.active = false;
    const group = row.dataset.group;
    shown.set(group, [...(shown.get(group) ?? []), one]);
    paint(one, colours());
    hide(one, hidden.get(group) ?? new Set());
  }
}
let queue = Promise.resolve();
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) {
    seen.unobserve(entry.target);
    queue = queue.then(() => draw(entry.target)).catch(console.error);
  }
}, {rootMargin: "500px"});
for (const row of document.querySelectorAll("[data-plots]")) seen.observe(row);

for (const entry of document.querySelectorAll(".legend button")) entry.addEventListener("click", () => {
  const legend = entry.closest(".legend"), group = legend.dataset.legend;
  entry.setAttribute("aria-pressed", entry.getAttribute("aria-pressed") != "true");
  const names = [...legend.querySelectorAll('[aria-pressed="false"]')].map(one => one.dataset.name);
  hidden.set(group, new Set(names));
  for (const one of shown.get(group) ?? []) hide(one, hidden.get(group));
});

// ---- tabs
for (const tabs of document.querySelectorAll("[data-tabs]")) {
  const heads = [...tabs.querySelectorAll(':scope > [role="tablist"] > [role="tab"]')];
  const choose = (head, focus) => {
    for (const one of heads) {
      const chosen = one == head;
      one.setAttribute("aria-selected", chosen);
      one.tabIndex = chosen ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) head.focus();
  };
  heads.forEach((head, place) => {
    head.addEventListener("click", () => choose(head, false));
    head.addEventListener("keydown", event => {
      const to = {ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: heads.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(heads[(to + heads.length) % heads.length], true);
    });
  });
  choose(heads[0], false);
}
for (const every of document.querySelectorAll("[data-open]")) every.addEventListener("click", () => {
  const details = [...document.getElementById(every.dataset.open).querySelectorAll("details")];
  const open = details.some(one => !one.open);
  for (const one of details) one.open = open;
  every.textContent = open ? "Hide all figures" : "Show all figures";
});
"""
