"""The template of the page, its style sheet and its script. No figures and no numbers."""

from __future__ import annotations

# with the style sheet of the report before it
STYLE = """
header, main, footer { max-width: 110rem; }
header { padding-top: 1.1rem; }
h1 { font-size: clamp(1.25rem, 1rem + 1.2vw, 1.8rem); margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; padding: 0; border: 0; }
.bar { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: flex-start; justify-content: space-between; }
.bar > div:first-child { flex: 1 1 22rem; min-width: 0; }
.tools { display: flex; gap: .5rem; flex-wrap: wrap; }
.switch { position: static; }
#status { margin: 0; max-width: none; display: flex; gap: .55rem; align-items: baseline; }
#status::before {
  content: ""; flex: none; width: .7rem; height: .7rem; border-radius: 50%; background: var(--quiet);
  align-self: center;
}
#status.running::before { background: var(--yes); }
#status.trouble { color: var(--no); font-weight: 600; }
#status.trouble::before { background: var(--no); border-radius: 0; }
#answers, #counts { display: flex; flex-wrap: wrap; gap: .4rem 1.6rem; margin: .8rem 0; grid-template-columns: none; }
#answers div, #counts div { min-width: 4.5rem; }
#answers dt, #counts dt { font-weight: 400; font-size: .8rem; color: var(--quiet); }
#answers dd, #counts dd { margin: 0; font-size: 1.12rem; font-weight: 600; font-variant-numeric: tabular-nums; }
#lost { margin: .6rem 0; max-width: none; }
main { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); padding-bottom: 1rem; }
@media (min-width: 62rem) { main { grid-template-columns: repeat(2, minmax(0, 1fr)); } .wide { grid-column: 1 / -1; } }
section {
  border: 1px solid var(--line); border-radius: 10px; padding: .8rem .9rem; min-width: 0; background: var(--page);
}
section > p { margin: .2rem 0 .4rem; font-size: .93rem; color: var(--quiet); max-width: none; }
.panels { grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); }
.panels.four { grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }
.pair { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; justify-content: center; }
.pair > div { max-width: 100%; overflow-x: auto; }
[role="img"] { min-width: 0; }
.key { display: flex; flex-wrap: wrap; gap: .35rem 1.6rem; font-size: .87rem; margin-top: .5rem; }
.key > span { display: inline-flex; gap: .45rem; align-items: center; flex-wrap: wrap; }
.scale { display: inline-flex; gap: .45rem; align-items: center; white-space: nowrap; }
.ramp { display: inline-block; width: 7rem; height: .75rem; border-radius: 3px; border: 1px solid var(--line); }
#signs { gap: .1rem 1rem; }
.entries { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .92rem; margin: .2rem 0 .4rem; }
.entries span { display: inline-flex; gap: .45rem; align-items: center; }
summary { cursor: pointer; font-weight: 600; padding: .15rem 0; min-height: 1.8rem; }
.scroll { max-height: 26rem; overflow: auto; margin-bottom: 0; }
.scroll thead th { position: sticky; top: 0; }
tr.dead td, tr.dead th, tr.stuck td, tr.stuck th { color: var(--no); font-weight: 600; }
.keys .bk-Figure:focus-within { outline: 3px solid var(--link) !important; outline-offset: 2px; border-radius: 3px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
footer { padding-top: .2rem; padding-bottom: 1.6rem; font-size: .87rem; }
footer p { max-width: none; }
@media (max-width: 40rem) { #counts { gap: .3rem 1.1rem; } #counts dd { font-size: 1rem; } section { padding: .6rem; } }
"""

TEMPLATE = """{% from macros import embed %}<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{{ title }}</title>
<style>{{ plain_style | safe }}{{ style | safe }}</style>
<script nonce="{{ nonce }}">{{ early | safe }}</script>
{{ bokeh_css | safe if bokeh_css }}
{{ bokeh_js | with_nonce(nonce) | safe if bokeh_js }}
<script nonce="{{ nonce }}">{{ script | safe }}</script>
</head>
<body>
<a class="skip" href="#main">To the figures</a>
<header>
<div class="bar">
<div><h1 id="title">{{ scene.title }}</h1><p id="status">{{ scene.status }}</p></div>
<div class="tools">
<button id="pause" class="plain" type="button" aria-pressed="false">Pause</button>
<button class="switch" type="button">Dark page</button>
</div>
</div>
<p id="lost" class="notice" role="alert" hidden></p>
<p id="news" class="unseen" role="status" aria-live="polite"></p>
<dl id="answers"></dl>
<dl id="counts"></dl>
</header>
<main id="main" tabindex="-1">
{% if "network" in figures.roots %}
<section aria-labelledby="network-title">
<h2 id="network-title">Network</h2>
<p id="network-words"></p>
<div role="img" aria-labelledby="network-title network-words">{{ embed(roots.network) | safe }}</div>
<div class="key">
<span>Node, distance from the mean: <span class="scale">{{ ramps.near }}
<span class="ramp" style="background: {{ ramps.agreement }}"></span> {{ ramps.far }}</span></span>
<span>Link, age of the last message: <span class="scale">{{ ramps.fresh }}
<span class="ramp" style="background: {{ ramps.ages }}"></span> {{ ramps.stale }}</span> dashed from {{ ramps.silent }}
on</span>
<span id="signs"></span>
</div>
</section>
{% endif %}
{% if "barycenter" in figures.roots %}
<section aria-labelledby="barycenter-title"{% if "network" not in figures.roots %} class="wide"{% endif %}>
<h2 id="barycenter-title">Barycenter</h2>
<p id="barycenter-words"></p>
<div role="img" aria-labelledby="barycenter-title barycenter-words"
{%- if "estimates" in figures.roots %} class="pair"{% endif %}>
<div>{{ embed(roots.barycenter) | safe }}</div>
{% if "estimates" in figures.roots %}<div>{{ embed(roots.estimates) | safe }}</div>{% endif %}
</div>
{% if figures.curves %}
<div class="key"><span><svg width="28" height="8" aria-hidden="true"><line x1="0" x2="28" y1="4" y2="4"
stroke="#D55E00" stroke-width="3"/></svg> mean of the nodes</span><span><svg width="28" height="8" aria-hidden="true">
<line x1="0" x2="28" y1="4" y2="4" stroke="var(--c-0072B2, #0072B2)" stroke-width="1.2"/></svg> one node</span></div>
{% endif %}
</section>
{% endif %}
{% if figures.panels %}
<section class="wide" aria-labelledby="curves-title">
<h2 id="curves-title">Over time</h2>
{% if legend %}<div class="entries">{% for entry in legend %}<span><svg width="34" height="8" aria-hidden="true">
<line x1="0" x2="34" y1="4" y2="4" stroke="{{ entry.colour }}" stroke-width="2.5"
stroke-dasharray="{{ entry.stroke }}"/></svg> {{ entry.name }}</span>{% endfor %}</div>{% endif %}
<div class="panels{% if figures.panels | length in (4, 7, 8) %} four{% endif %}" role="img"
aria-labelledby="curves-title">
{% for name in figures.panels %}<div class="panel">{{ embed(roots[name]) | safe }}</div>{% endfor %}
</div>
</section>
{% endif %}
{% if "network" in figures.roots %}
<section class="wide" aria-label="Nodes as a table">
<details id="nodes"><summary>All nodes as a table</summary>
<div class="scroll" tabindex="0" role="region" aria-label="Table of nodes"><table>
<thead><tr><th scope="col">node</th><th scope="col">state</th><th scope="col">from the mean</th>
<th scope="col">oldest last message</th><th scope="col">more</th></tr></thead><tbody id="rows"></tbody></table></div>
<p id="more"></p></details>
</section>
{% endif %}
</main>
<footer><p>Shown by <code>barymesh dashboard</code>, which reads and changes nothing. Point at a figure for its numbers;
drag to move it, hold Ctrl and turn the wheel to zoom.</p>
<noscript><p>The figures need JavaScript.</p></noscript></footer>
<div hidden>{{ embed(roots.carrier) | safe }}</div>
{{ plot_script | with_nonce(nonce) | safe }}
</body>
</html>
"""

# after PAINT of bokeh_plots
SCRIPT = """
const barymesh = (() => {
  const page = document.documentElement;
  const at = id => document.getElementById(id);
  let control = null, paused = false;

  // ---- light and dark
  function applyTheme(theme) {
    page.dataset.theme = theme;
    document.querySelector(".switch").textContent = theme == "dark" ? "Light page" : "Dark page";
    for (const one of Bokeh.documents) paint(one, colours());
  }
  function kept() { try { return localStorage.getItem("barymesh-theme"); } catch { return null; } }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => {
    if (!kept()) applyTheme(event.matches ? "dark" : "light");
  });
  // the focus inside a figure cannot be seen from outside; it is shown while the keyboard is used
  document.addEventListener("keydown", () => page.classList.add("keys"));
  document.addEventListener("pointerdown", () => page.classList.remove("keys"));
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".switch").addEventListener("click", () => {
      const theme = page.dataset.theme == "dark" ? "light" : "dark";
      try { localStorage.setItem("barymesh-theme", theme); } catch {}
      applyTheme(theme);
    });
    at("pause").addEventListener("click", () => {
      paused = !paused;
      at("pause").setAttribute("aria-pressed", paused);
      at("pause").textContent = paused ? "Continue" : "Pause";
      if (control) control.data = {paused: [paused]};
    });
    const nodes = at("nodes");
    try { if (nodes && sessionStorage.getItem("barymesh-nodes")) nodes.open = true; } catch {}
    nodes?.addEventListener("toggle", () => {
      try { sessionStorage.setItem("barymesh-nodes", nodes.open ? "1" : ""); } catch {}
    });
    applyTheme(page.dataset.theme);
  });

  // ---- texts
  function write(id, text) { const one = at(id); if (one && one.textContent != text) one.textContent = text; }
  function cell(kind, text) { const one = document.createElement(kind); one.textContent = text; return one; }
  function update(source) {
    const facts = JSON.parse(source.data.json[0]);
    if (facts.reload) { location.reload(); return; }
    write("title", facts.title);
    write("status", facts.status);
    at("status").className = facts.dead.length ? "trouble" : facts.running ? "running" : "";
    write("news", facts.news);
    const listed = pairs => Object.entries(pairs).map(([name, value]) => {
      const pair = document.createElement("div");
      pair.append(cell("dt", name), cell("dd", value));
      return pair;
    });
    for (const name of ["answers", "counts"]) at(name).replaceChildren(...listed(facts[name]));
    for (const [name, text] of Object.entries(facts.alt)) write(name + "-words", text);
    at("signs")?.replaceChildren(...facts.signs.map(text => cell("span", text)));
    at("rows")?.replaceChildren(...facts.rows.map(([name, sign, state, distance, age, more]) => {
      const row = document.createElement("tr"), head = cell("th", name);
      head.scope = "row";
      row.className = state;
      row.append(head, cell("td", sign + " " + state), cell("td", distance), cell("td", age), cell("td", more));
      return row;
    }));
    write("more", facts.more ? "And " + facts.more.toLocaleString("en") + " more." : "");
    page.dataset.updates = Number(page.dataset.updates ?? 0) + 1;
  }

  // ---- what Bokeh calls
  const fingers = matchMedia("(pointer: coarse)").matches;
  function begin(facts, switches) {
    control = switches;
    // a finger scrolls the page, until the user chooses the tool that moves a figure
    if (fingers) for (const one of Bokeh.documents) for (const model of one.all_models ?? one._all_models.values())
      if (model.type == "PanTool") model.active = false;
    applyTheme(page.dataset.theme);
    update(facts);
    page.dataset.ready = "yes";
  }
  function lost() {
    at("lost").textContent = "The dashboard has ended: these are its last data.";
    at("lost").hidden = false;
    at("pause").disabled = true;
    at("status").className = "";
    page.dataset.lost = "yes";
  }
  return {begin, update, lost};
})();
"""
