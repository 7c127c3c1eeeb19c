"""The scripts of the page: room for labels, the replay, and the texts."""

from __future__ import annotations

# where labels go, once the size of a figure is known: names of nodes, names of curves, and what happened
LABELS = """
const labels = (() => {
  const SIZE = 11, LINE = 13, ROOM = 3, MOST_NAMED = 400;
  const brush = document.createElement("canvas").getContext("2d");
  function width(text, size = SIZE) {
    brush.font = size + "px helvetica, arial, sans-serif";
    return brush.measureText(text).width;
  }
  const set = (source, data) => source.setv({data}, {sync: false});

  // from data to pixels of the frame, and back
  function scales(plot) {
    const make = (range, size, log, flip) => {
      const of = log ? Math.log : v => v, back = log ? Math.exp : v => v;
      const low = of(range.start), span = of(range.end) - low;
      const turn = share => flip ? 1 - share : share;
      return {to: v => size * turn((of(v) - low) / span), from: p => back(low + span * turn(p / size))};
    };
    return {
      x: make(plot.x_range, plot.inner_width, plot.x_scale.type == "LogScale", false),
      y: make(plot.y_range, plot.inner_height, plot.y_scale.type == "LogScale", true),
    };
  }
  const known = plot => plot.inner_width > 0 && plot.inner_height > 0 && isFinite(plot.y_range.start)
    && isFinite(plot.x_range.start);

  const overlap = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
  // whether a line crosses a box, by clipping it
  function crosses(box, [ax, ay, bx, by]) {
    let from = 0, to = 1;
    for (const [start, way, low, high] of [[ax, bx - ax, box.x0, box.x1], [ay, by - ay, box.y0, box.y1]]) {
      if (way == 0) { if (start < low || start > high) return false; continue; }
      const first = (low - start) / way, second = (high - start) / way;
      from = Math.max(from, Math.min(first, second));
      to = Math.min(to, Math.max(first, second));
      if (from > to) return false;
    }
    return true;
  }

  // a place beside its node for each name that has one without covering another name, a node or, if possible, a line;
  // a name without a place is left out, and shown at the pointer
  function place(nodes, lines, frame) {
    const dots = nodes.map(({x, y, r}) => ({x0: x - r, x1: x + r, y0: y - r, y1: y + r}));
    const taken = [];
    const order = nodes.map((_, k) => k).sort((a, b) => nodes[a].rank - nodes[b].rank || a - b);
    // how much it may cover: nothing, lines, or nodes too
    const free = (box, k, cover) =>
      box.x0 >= 0 && box.y0 >= 0 && box.x1 <= frame.width && box.y1 <= frame.height
      && !taken.some(other => overlap(box, other.box))
      && (cover > 1 || !dots.some((dot, other) => other != k && overlap(box, dot)))
      && (cover > 0 || !lines.some(line => crosses(box, line)));
    for (const k of order) {
      const {x, y, r, text, rank} = nodes[k];
      if (rank > 0 && nodes.length > MOST_NAMED) break;
      const w = width(text) / 2 + ROOM / 2, h = LINE / 2, away = r + ROOM;
      const boxes = [[0, away + h], [0, -away - h], [away + w, 0], [-away - w, 0], [away + w, away], [-away - w, away],
        [away + w, -away], [-away - w, -away]].map(([dx, dy]) =>
          ({x0: x + dx - w, x1: x + dx + w, y0: y + dy - h, y1: y + dy + h}));
      // the root, and nodes in trouble, have a name in any case
      const covers = rank > 0 ? [0, 1] : [0, 1, 2];
      const box = covers.map(cover => boxes.find(one => free(one, k, cover))).find(one => one);
      if (box) taken.push({k, box});
    }
    return taken;
  }

  function name(plot, source, lines, target) {
    let before = "";
    return () => {
      if (!known(plot)) return;
      const {x, y} = scales(plot), data = source.data, frame = {width: plot.inner_width, height: plot.inner_height};
      const key = [frame.width, frame.height, x.from(0), x.from(9), y.from(0), y.from(9), ...data.label].join("|");
      if (key == before) return;
      before = key;
      const nodes = Array.from(data.label, (text, k) => ({
        x: x.to(data.x[k]), y: y.to(data.y[k]), r: data.reach[k], text, rank: data.rank[k]}));
      const drawn = Array.from(lines.data.x0, (_, k) => [
        x.to(lines.data.x0[k]), y.to(lines.data.y0[k]), x.to(lines.data.x1[k]), y.to(lines.data.y1[k])]);
      const found = place(nodes, drawn, frame);
      set(target, {
        x: found.map(one => x.from((one.box.x0 + one.box.x1) / 2)),
        y: found.map(one => y.from((one.box.y0 + one.box.y1) / 2)),
        text: found.map(one => nodes[one.k].text),
      });
    };
  }

  // heights of labels, moved so that neighbours are a line apart and none is outside
  function apart(heights, low, high) {
    const order = heights.map((_, k) => k).sort((a, b) => heights[a] - heights[b]);
    const moved = order.map(k => Math.max(heights[k], low));
    for (let k = 1; k < moved.length; k++) moved[k] = Math.max(moved[k], moved[k - 1] + LINE);
    if (moved.length) moved[moved.length - 1] = Math.min(moved.at(-1), high);
    for (let k = moved.length - 2; k >= 0; k--) moved[k] = Math.min(moved[k], moved[k + 1] - LINE);
    const found = [];
    order.forEach((k, place) => { found[k] = moved[place]; });
    return found;
  }
  // labels that are above one another, as groups: from left to right, each begins before the group ends
  function groups(lefts, texts) {
    const found = [];
    let end = -Infinity;
    for (const k of lefts.map((_, k) => k).sort((a, b) => lefts[a] - lefts[b])) {
      if (lefts[k] > end) found.push([]);
      found.at(-1).push(k);
      end = Math.max(end, lefts[k] + width(texts[k]) + ROOM);
    }
    return found;
  }
  function spread(plot, source, own) {
    return () => {
      const {x, y, text, colour} = source.data;
      if (!known(plot) || !text.length) return;
      const at = scales(plot), heights = Array.from(y, at.y.to), shift = [], ink = Array.from(colour, own);
      for (const group of groups(Array.from(x, at.x.to), text)) {
        const moved = apart(group.map(k => heights[k]), LINE / 2, plot.inner_height - LINE / 2);
        group.forEach((k, place) => { shift[k] = moved[place] - heights[k]; });
      }
      if (shift.some((one, k) => !(Math.abs(one - source.data.shift[k]) < 0.01) || ink[k] != source.data.ink[k]))
        set(source, {...source.data, shift, ink});
    };
  }

  // what happened, above the lines: a label that would cover the one before it is left out
  function mark(plot, marks, target, own) {
    return () => {
      if (!known(plot)) return;
      const across = scales(plot).x, found = {x: [], y: [], text: [], ink: [], shift: []};
      let end = -Infinity;
      Array.from(marks.data.text).forEach((text, k) => {
        const at = across.to(marks.data.x[k]), long = width(text, 10);
        // to the left of the last line
        const shift = at + long > plot.inner_width + 4 * ROOM ? -long : 0;
        if (at + shift < end + 2 * ROOM || at < 0) return;
        end = at + shift + long;
        for (const [field, value] of [["x", marks.data.x[k]], ["y", plot.y_range.end], ["text", text],
          ["ink", own(marks.data.ink[k])], ["shift", shift]]) found[field].push(value);
      });
      set(target, found);
    };
  }

  // arrange the labels of all figures now, and whenever a figure or its data change
  function begin(documents, own) {
    const works = [];
    for (const one of documents) for (const plot of one.roots()) {
      if (!plot.renderers) continue;
      const sources = {};
      for (const renderer of plot.renderers) sources[renderer.data_source.name] = renderer.data_source;
      const {nodes, edges, labels, tips, marks, mark_labels} = sources;
      const own_works = [];
      if (labels) own_works.push(name(plot, nodes, edges, labels));
      if (tips) own_works.push(spread(plot, tips, own));
      if (mark_labels) own_works.push(mark(plot, marks, mark_labels, own));
      if (!own_works.length) continue;
      let requested = false;
      const arrange = () => {
        if (requested) return;
        requested = true;
        requestAnimationFrame(() => { requested = false; for (const work of own_works) work(); });
      };
      for (const model of [plot.x_range, plot.y_range, nodes, tips, marks]) model?.change.connect(arrange);
      for (const size of ["inner_width", "inner_height"]) plot.properties[size].change.connect(arrange);
      works.push(arrange);
    }
    const all = () => { for (const arrange of works) arrange(); };
    all();
    return all;
  }
  return {begin};
})();
"""

# after PAINT of bokeh_plots, and LABELS
SCRIPT = """
const barymesh = (() => {
  const page = document.documentElement;
  const at = id => document.getElementById(id);
  // seconds that a whole recording takes at speed 1, and milliseconds until an answer is no longer waited for
  const WHOLE = 10, PATIENCE = 1000;
  let control = null, arrange = () => {};
  // of the recording, and what is shown: the newest, or a time; whether it moves; when the last scene was requested,
  // and which it was
  let timeline = {times: [0], marks: [], unit: "", running: false};
  let live = true, time = 0, playing = false, ticked = 0, requested = 0, sent = -1;

  // ---- light and dark
  function applyTheme(theme) {
    page.dataset.theme = theme;
    document.querySelector(".switch").textContent = theme == "dark" ? "Light page" : "Dark page";
    for (const one of Bokeh.documents) paint(one, colours());
    arrange();
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
    at("play").addEventListener("click", () => {
      if (playing || (live && timeline.running)) pause();
      else play();
    });
    at("first").addEventListener("click", () => { seek(timeline.times[0]); play(); });
    at("live").addEventListener("click", follow);
    at("slider").addEventListener("input", () => {
      const place = Number(at("slider").value);
      playing = false;
      if (place == timeline.times.length - 1) follow();
      else seek(timeline.times[place]);
    });
    at("speed").addEventListener("change", controls);
    const nodes = at("nodes");
    try { if (nodes && sessionStorage.getItem("barymesh-nodes")) nodes.open = true; } catch {}
    nodes?.addEventListener("toggle", () => {
      try { sessionStorage.setItem("barymesh-nodes", nodes.open ? "1" : ""); } catch {}
    });
    applyTheme(page.dataset.theme);
  });
  addEventListener("resize", () => flags());

  // ---- the replay
  const last = () => timeline.times.at(-1);
  const speed = () => Number(at("speed").value) * (last() - timeline.times[0]) / WHOLE;
  const place = () => Math.max(0, timeline.times.findLastIndex(one => one <= time));
  function shown(number) {
    return Number(number.toPrecision(3)).toLocaleString("en", {maximumSignificantDigits: 3});
  }
  function send() { requested = performance.now(); if (control) control.data = {live: [live], at: [time]}; }
  function seek(when) { live = false; time = when; send(); controls(); }
  function follow() { live = true; playing = false; time = last(); send(); controls(); }
  function pause() { playing = false; if (live) seek(last()); else controls(); }
  function play() {
    if (live || time >= last()) seek(timeline.times[0]);
    playing = true;
    ticked = performance.now();
    sent = place();
    controls();
    requestAnimationFrame(tick);
  }
  // time goes on by itself, and the next scene is requested when the last one has come
  function tick(now) {
    if (!playing) return;
    time += Math.max(0, now - ticked) / 1000 * speed();
    ticked = now;
    if (time >= last()) { follow(); return; }
    if (place() != sent && (!requested || now - requested > PATIENCE)) { sent = place(); send(); controls(); }
    requestAnimationFrame(tick);
  }
  function controls() {
    const many = timeline.times.length > 1;
    at("replay").hidden = !many;
    if (!many) return;
    const slider = at("slider"), unit = timeline.unit || "iterations";
    slider.max = timeline.times.length - 1;
    slider.value = live ? slider.max : place();
    const when = shown(live ? last() : timeline.times[place()]) + " " + unit;
    slider.setAttribute("aria-valuetext", when);
    write("when", when + " of " + shown(last()));
    write("rate", shown(speed()) + " " + unit + " a second");
    const moves = playing || (live && timeline.running);
    write("play", moves ? "Pause" : live || time >= last() ? "Replay" : "Play");
    at("live").setAttribute("aria-pressed", live);
    page.dataset.playing = playing ? "yes" : "no";
  }
  // what happened, below the slider; a text without room is shown at the pointer
  function flags() {
    const most = Math.max(1, timeline.times.length - 1), strip = at("flags");
    strip.replaceChildren(...timeline.marks.map(({place, kind, text}) => {
      const flag = document.createElement("span");
      flag.className = kind;
      flag.title = text;
      flag.style.left = 100 * place / most + "%";
      flag.append(cell("b", text));
      return flag;
    }));
    let end = -Infinity;
    const right = strip.getBoundingClientRect().right;
    for (const flag of strip.children) {
      const name = flag.firstChild;
      if (name.getBoundingClientRect().right > right) name.className = "left";
      const box = name.getBoundingClientRect();
      if (box.left < end + 6) name.remove();
      else end = box.right;
    }
  }
  function extend(source) {
    timeline = JSON.parse(source.data.json[0]);
    if (live) time = last();
    controls();
    flags();
  }

  // ---- texts
  function write(id, text) { const one = at(id); if (one && one.textContent != text) one.textContent = text; }
  function cell(kind, text) { const one = document.createElement(kind); one.textContent = text; return one; }
  function update(source) {
    const facts = JSON.parse(source.data.json[0]);
    if (facts.reload) { location.reload(); return; }
    requested = 0;
    write("title", facts.title);
    write("status", facts.status);
    at("status").className = facts.dead.length ? "trouble" : facts.running ? "running" : "";
    if (!playing) write("news", facts.news);
    const listed = pairs => Object.entries(pairs).map(([name, value]) => {
      const pair = document.createElement("div");
      pair.append(cell("dt", name), cell("dd", value));
      return pair;
    });
    for (const name of ["answers", "counts"]) at(name).replaceChildren(...listed(facts[name]));
    for (const [name, text] of Object.entries(facts.alt)) write(name + "-words", text);
    at("signs")?.replaceChildren(...facts.signs.map(text => cell("span", text)));
    at("rows")?.replaceChildren(...facts.rows.map(([name, sign, state, ...more]) => {
      const row = document.createElement("tr"), head = cell("th", name);
      head.scope = "row";
      row.className = state;
      row.append(head, cell("td", sign + " " + state), ...more.map(text => cell("td", text)));
      return row;
    }));
    write("more", facts.more ? "And " + facts.more.toLocaleString("en") + " more." : "");
    page.dataset.now = facts.now;
    page.dataset.updates = Number(page.dataset.updates ?? 0) + 1;
  }

  // ---- what Bokeh calls
  const fingers = matchMedia("(pointer: coarse)").matches;
  function begin(facts, times, wishes) {
    control = wishes;
    // a finger scrolls the page, until the user chooses the tool that moves a figure
    if (fingers) for (const one of Bokeh.documents) for (const model of one.all_models ?? one._all_models.values())
      if (model.type == "PanTool") model.active = false;
    arrange = labels.begin(Bokeh.documents, colour => colours().own(colour));
    applyTheme(page.dataset.theme);
    update(facts);
    extend(times);
    page.dataset.ready = "yes";
  }
  function lost() {
    at("lost").textContent = "The dashboard has ended: these are its last data.";
    at("lost").hidden = false;
    playing = false;
    for (const one of at("replay").querySelectorAll("button, input, select")) one.disabled = true;
    at("status").className = "";
    page.dataset.lost = "yes";
  }
  return {begin, update, extend, lost};
})();
"""
