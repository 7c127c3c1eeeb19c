"""The template of the page, and its style sheet. No figures and no numbers."""

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
.key > span, .bar-scale > span { display: inline-flex; gap: .45rem; align-items: center; flex-wrap: wrap; }
.scale { display: inline-flex; gap: .45rem; align-items: center; white-space: nowrap; }
.ramp { display: inline-block; width: 7rem; height: .75rem; border-radius: 3px; border: 1px solid var(--line); }
#signs { gap: .1rem 1rem; }
.bar-scale { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: flex-start; }
.decades { display: flex; list-style: none; margin: 0 1rem; padding: 0; font-size: .75rem; }
.decades li { width: clamp(1.7rem, 8vw, 2.35rem); position: relative; padding-bottom: 1.1rem; }
.decades li.end { width: 0; }
.decades i { display: block; height: .85rem; margin-top: .3rem; border: solid var(--line); border-width: 1px 0; }
.decades span { position: absolute; bottom: 0; left: 0; transform: translateX(-50%); white-space: nowrap; }
#replay { display: flex; flex-wrap: wrap; gap: .3rem 1rem; align-items: flex-start; margin: 0 0 1rem; }
#replay[hidden] { display: none; }
#replay .buttons, .pace { display: flex; gap: .4rem; align-items: center; min-height: 2.25rem; }
.pace { gap: .9rem; font-variant-numeric: tabular-nums; font-size: .92rem; flex-wrap: wrap; }
#play { min-width: 5.2rem; }
#live[aria-pressed="true"] { background: var(--yes-card); color: var(--yes); font-weight: 600; }
#speed { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: .2rem .3rem; min-height: 2rem; }
.track { flex: 1 1 18rem; min-width: 0; position: relative; padding-bottom: 1.25rem; }
#slider { width: 100%; margin: 0; min-height: 2.25rem; accent-color: var(--link); }
#flags { position: absolute; left: 8px; right: 8px; top: 1.75rem; height: 1.7rem; font-size: .75rem; }
#flags span { position: absolute; top: 0; border-left: 2px solid; height: .6rem; }
#flags b { position: absolute; top: .5rem; left: -2px; font-weight: 400; white-space: nowrap; }
#flags b.left { left: auto; right: 0; }
#flags .epoch { color: var(--quiet); } #flags .rounds { color: var(--c-0072B2, #0072B2); }
#flags .harm { color: var(--no); } #flags .done { color: var(--yes); }
summary { cursor: pointer; font-weight: 600; padding: .15rem 0; min-height: 1.8rem; }
.scroll { max-height: 26rem; overflow: auto; margin-bottom: 0; }
.scroll td:nth-child(-n + 6) { white-space: nowrap; }
.scroll thead th { position: sticky; top: 0; }
tr.dead td, tr.dead th, tr.stuck td, tr.stuck th { color: var(--no); font-weight: 600; }
.keys .bk-Figure:focus-within { outline: 3px solid var(--link) !important; outline-offset: 2px; border-radius: 3px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
footer { padding-top: .2rem; padding-bottom: 1.6rem; font-size: .87rem; }
footer p { max-width: none; }
@media (max-width: 40rem) {
  #counts { gap: .3rem 1.1rem; } #counts dd, #answers dd { font-size: 1rem; } section { padding: .6rem; }
  .track { order: -1; flex-basis: 100%; }
}
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
<div><h1 id="title">{{ title_text }}</h1><p id="status">{{ status }}</p></div>
<div class="tools"><button class="switch" type="button">Dark page</button></div>
</div>
<p id="lost" class="notice" role="alert" hidden></p>
<p id="news" class="unseen" role="status" aria-live="polite"></p>
<dl id="answers"></dl>
<dl id="counts"></dl>
<div id="replay" role="group" aria-label="Replay" hidden>
<div class="buttons">
<button id="first" class="plain" type="button" title="From the start" aria-label="From the start">|◀</button>
<button id="play" class="plain" type="button">Replay</button>
<button id="live" class="plain" type="button" aria-pressed="true">Live</button>
</div>
<div class="track"><input id="slider" type="range" min="0" max="1" step="1" value="1" aria-label="Time">
<div id="flags" aria-hidden="true"></div></div>
<div class="pace"><span id="when"></span>
<label>speed <select id="speed">
<option value="0.0625">1/16</option><option value="0.25">1/4</option><option value="0.5">1/2</option>
<option value="1" selected>1</option><option value="2">2</option><option value="4">4</option></select></label>
<span id="rate" class="quiet"></span></div>
</div>
</header>
<main id="main" tabindex="-1">
{% if "network" in figures.roots %}
<section aria-labelledby="network-title">
<h2 id="network-title">Network</h2>
<p id="network-words"></p>
<div role="img" aria-labelledby="network-title network-words">{{ embed(roots.network) | safe }}</div>
<div class="key">
<div class="bar-scale"><span>Node, total variation from the mean:</span>
<ol class="decades">{% for one in scales.decades %}<li><i style="background: {{ one.colour }}"></i><span>{{ one.label }}
</span></li>{% endfor %}<li class="end"><span>{{ scales.far }}</span></li></ol></div>
<span>Link, age of the last message: <span class="scale">{{ scales.fresh }}
<span class="ramp" style="background: {{ scales.ages }}"></span> {{ scales.stale }}</span> dashed from
{{ scales.silent }} on</span>
<span><svg width="30" height="14" aria-hidden="true"><line x1="4" x2="26" y1="7" y2="7" stroke="currentColor"
stroke-width="8" stroke-opacity=".25" stroke-linecap="round"/></svg> tree
<svg width="18" height="18" aria-hidden="true"><circle cx="9" cy="9" r="7" fill="none" stroke="currentColor"
stroke-width="2.2"/></svg> its root <svg width="12" height="14" aria-hidden="true"><path
d="M3 6a3 3 0 0 1 6 0M1.5 6h9v7h-9z" fill="none" stroke="currentColor" stroke-width="1.4"/></svg> masked</span>
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
</section>
{% endif %}
{% if figures.panels %}
<section class="wide" aria-labelledby="curves-title">
<h2 id="curves-title">Over time</h2>
{% if "network" in figures.roots %}<div class="key">{% for mark in marks %}<span><svg width="6" height="16"
aria-hidden="true"><line x1="3" x2="3" y1="0" y2="16" stroke="{{ mark.colour }}" stroke-width="2"
stroke-dasharray="{{ mark.stroke }}"/></svg> {{ mark.text }}</span>{% endfor %}</div>{% endif %}
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
<th scope="col">certified gap</th><th scope="col">parent</th><th scope="col">oldest last message</th>
<th scope="col">more</th></tr></thead><tbody id="rows"></tbody></table></div>
<p id="more"></p></details>
</section>
{% endif %}
</main>
<footer><p>Shown by <code>barymesh dashboard</code>, which reads and changes nothing. Point at a figure for its numbers;
drag to move it, hold Ctrl and turn the wheel to zoom. At speed 1 a replay takes 10 seconds.</p>
<noscript><p>The figures need JavaScript.</p></noscript></footer>
<div hidden>{{ embed(roots.carrier) | safe }}</div>
{{ plot_script | with_nonce(nonce) | safe }}
</body>
</html>
"""
