// The behaviour of the report. The functions paint and colours come before it, from barymesh.viz.bokeh_plots.
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
    if (["GlyphRenderer", "Label"].includes(model.type) && model.name) model.visible = !names.has(model.name);
}
const fingers = matchMedia("(pointer: coarse)").matches;
async function draw(row) {
  const {document: content, roots} = JSON.parse(document.getElementById(row.dataset.plots).textContent);
  const before = Bokeh.documents.length;
  await Bokeh.embed.embed_items({plots: content}, [{docid: "plots", roots, root_ids: Object.keys(roots)}]);
  for (const one of Bokeh.documents.slice(before)) {
    // a finger scrolls the page unless the reader switches the tool on
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
