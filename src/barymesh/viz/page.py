"""What all pages share: the style sheet, light and dark, and the script that chooses between the two."""

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
header { padding-top: 2rem; }
h1 { font-size: clamp(1.5rem, 1.1rem + 1.8vw, 2.3rem); line-height: 1.2; margin: 0 0 .4rem; }
h2 {
  font-size: 1.45rem; line-height: 1.25; margin: 3.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line);
}
p, li, dd { max-width: 50rem; }
a { color: var(--link); }
a:focus-visible, button:focus-visible, summary:focus-visible, [tabindex]:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; border-radius: 3px;
}
code { background: var(--card); padding: .1em .35em; border-radius: 4px; font-size: .92em; }
small, .quiet { color: var(--quiet); }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--page); padding: .5rem; z-index: 5; }
button { font: inherit; color: inherit; cursor: pointer; }
.switch, .plain {
  background: var(--card); border: 1px solid var(--line); border-radius: 999px; padding: .3rem .9rem;
  min-height: 2.25rem;
}
.notice { background: var(--open-card); color: var(--open); border-radius: 8px; padding: .7rem 1rem; max-width: 50rem; }
.notice strong { color: inherit; }
.scroll { overflow-x: auto; margin: .8rem 0 1.4rem; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; min-width: 100%; }
caption { text-align: left; padding: .6rem .8rem; color: var(--quiet); caption-side: top; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; border-top: 1px solid var(--line); }
thead th, thead td { background: var(--card); vertical-align: bottom; }
tbody th { font-weight: 600; white-space: nowrap; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: .3rem .8rem; }
.panel { min-height: 190px; min-width: 0; }
footer { padding-top: 2rem; padding-bottom: 3rem; color: var(--quiet); }
@media (max-width: 40rem) { tbody th { white-space: normal; } th, td { padding: .35rem .5rem; } }
@media print { .switch { display: none; } }
"""

# for the head of a page, so that the theme is known before anything is drawn
EARLY = """
(() => {
  let kept = null;
  try { kept = localStorage.getItem("barymesh-theme"); } catch {}
  const dark = kept ? kept == "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
"""
