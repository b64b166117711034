// The page of a robot: live, by one message a drawn frame, or of recordings that are in it. `given` is what it is told.
"use strict";
(() => {
const $ = id => document.getElementById(id);
const given = JSON.parse($("robot").textContent), {servos, live} = given, n = servos.length;
const PLACE = {goal: 0, position: 1, ghost: 2, load: 3, voltage: 4, temperature: 5, on: 6}, BASE = 7, ROWS = 7;
const SPAN = 30, MOST = 4;  // s, curves
const HANDS = 700, SHOWN = 10e3;  // ms that a slider is left alone, and that a message stays
const INK = ["reference", "other", "third", "fitted"];
const NUMBER = /^[-+]?(\d+[.,]?\d*|[.,]\d+)$/;
const scale = s => servos[s].sliding ? 1000 : 180 / Math.PI, sign = s => servos[s].sliding ? " mm" : "°";
const known = value => value !== null && Number.isFinite(value);
const plain = (value, digits) => value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");
const told = (s, value, digits = 1) => known(value) ? plain(scale(s) * value, digits) + sign(s) : "–";
const number = name => servos.findIndex(one => one.name === name);
function el(tag, more = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), more);
  made.append(...inside);
  return made;
}
function put(node, text) { if (node.textContent !== text) node.textContent = text; }

// ---- what was measured: rows in order of time, the same questions for frames that come and for recordings
const stream = {
  times: [], frames: [],
  take(buffer) {
    const time = new DataView(buffer).getFloat64(0, true), {times, frames} = this;
    if (time <= times.at(-1)) { if (time > times.at(-1) - 1) return; times.length = frames.length = 0; }
    times.push(time); frames.push(new Float32Array(buffer, 8));
    if (times[0] < time - SPAN - 5) {
      const old = times.findIndex(one => one >= time - SPAN);
      times.splice(0, old); frames.splice(0, old);
    }
  },
  value(what, s, row) { return this.frames[row]?.[BASE + PLACE[what] * n + s] ?? NaN; },
  base(row) { const base = Array.from(this.frames[row].slice(0, BASE)); return known(base[0]) ? base : null; },
  touching(row) {
    const tail = this.frames[row].slice(BASE + ROWS * n), found = [];
    const three = i => Array.from(tail.slice(i, i + 3));
    for (let i = 0; i + 5 < tail.length; i += 6) found.push({point: three(i), force: three(i + 3)});
    return found;
  },
};
function recorded(one) {
  const columns = Object.fromEntries(Object.entries(one.columns).map(([what, all]) => [what, all.map(each => each && heights(each))]));
  const base = one.base && one.base.map(heights);
  return {
    label: one.label, times: Array.from(new Float32Array(bytes(one.times))), columns,
    value: (what, s, row) => columns[what]?.[s]?.[row] ?? NaN,
    base: row => base && base[0][row] !== null ? base.map(part => part[row]) : null,
    touching: () => [],
  };
}
const all = live ? [stream] : given.recordings.map(recorded), source = all[0], times = source.times;
const compared = live ? given.twin : all.length > 1;
function rowAt(list, time) {  // the nearest
  let low = 0, high = list.length - 1;
  while (low < high) { const middle = (low + high) >> 1; if (list[middle] < time) low = middle + 1; else high = middle; }
  return low && time - list[low - 1] <= list[low] - time ? low - 1 : low;
}
const otherAt = (which, s, row) => live ? source.value("ghost", s, row)
  : all[which + 1].value("position", s, rowAt(all[which + 1].times, times[row]));
function residual(s, row) {
  const beside = compared ? otherAt(0, s, row) : source.value("goal", s, row);
  return source.value("position", s, row) - (known(beside) ? beside : NaN);
}
const others = live ? (given.twin ? [0] : []) : all.slice(1).map((_, i) => i);

// ---- what is shown
let held = null, playing = !live, chosen = [], worst = null, said = {}, news = {}, sorted = false, tints = "parts", showMass = false;
const due = {body: true, table: true, curves: true}, recent = new Float64Array(n), hands = {};
const row = () => held === null ? times.length - 1 : rowAt(times, held);
const now = () => held ?? times.at(-1) ?? 0;

// ---- the body
const body = given.links.length ? new Body(document.querySelector("canvas"), document.querySelector("#scene svg"), given) : null;
const carrier = [];  // the servo that moves each link; parents come first
given.links.forEach(({servo, parent}, i) => { carrier[i] = servo >= 0 || parent < 0 ? servo : carrier[parent]; });
const weight = given.links.reduce((sum, link) => sum + link.mass, 0) || 1;
let drawnAt = -1e9;
function massOf(poses) {
  let at = [0, 0, 0];
  given.links.forEach((link, i) => { at = plus(at, placed(poses[i], link.centre), link.mass / weight); });
  return [at, at[2]];
}
function drawBody(at) {
  const slow = !body.gl && (held === null || playing);  // without WebGL: twice a second
  if (slow && performance.now() - drawnAt < 500) { due.body = true; return; }
  drawnAt = performance.now();
  const positions = servos.map((_, s) => source.value("position", s, at));
  const placedBy = Array.from(positions, value => known(value) ? value : 0);
  let base = source.base(at);
  if (base) base = [...minus(base.slice(0, 3), turned(ofQuaternion(base.slice(3)), given.links[0].centre)), ...base.slice(3)];
  const ghosts = others.map(which => {
    const there = servos.map((_, s) => { const value = otherAt(which, s, at); return known(value) ? value : placedBy[s]; });
    return {position: s => there[s], apart: s => Math.abs(there[s] - placedBy[s]) > (servos[s].sliding ? 0.001 : Math.PI / 180)};
  });
  const shade = s => {  // from its own colour to red
    const share = {
      load: () => Math.abs(source.value("load", s, at)), temperature: () => (source.value("temperature", s, at) - 35) / 35,
      residual: () => Math.abs(residual(s, at)) / 0.175,
    }[tints];
    return share ? [0.9, 0.1, 0.08, Math.min(1, Math.max(0, share() || 0))] : null;
  };
  const marked = s => s === chosen[0] && tints === "parts" ? [0.15, 0.45, 0.95, 0.5] : shade(s);
  const colours = carrier.map(s => s < 0 ? null : marked(s));
  const far = furthest(at), shown = far && Math.abs(scale(far.s) * far.by) >= 1 ? far : null;
  const reach = 0.5 * (given.height || 0.3) / (9.81 * weight);  // of a newton, m: half the robot's size is its weight
  const touching = source.touching(at).map(({point, force}) => ({point, force: force.map(part => part * reach)}));
  body.show({
    position: s => placedBy[s], base, others: ghosts, tints: colours, contacts: touching, mass: showMass ? massOf : null,
    worst: shown && {servo: shown.s, by: shown.by, words: `${servos[shown.s].name} ${told(shown.s, Math.abs(shown.by))}`},
  });
}
function furthest(at) {
  let found = null;
  for (let s = 0; s < n; s++) {
    const by = residual(s, at);
    if (known(by) && (!found || Math.abs(by) > Math.abs(found.by))) found = {s, by};
  }
  return found;
}
if (body) {
  body.picked = s => { if (s >= 0) choose(s); };
  new ResizeObserver(() => body.changed()).observe(body.canvas);
  $("fit").onclick = () => body.fit();
} else {
  $("scene").classList.add("bodyless"); $("servos").classList.add("alone");
}

// ---- the table
const nudges = s => [-5, -1, 1, 5].map(by =>
  el("button", {textContent: (by > 0 ? "+" : "−") + Math.abs(by), onclick: () => nudge(s, by)}));
const rows = servos.map((servo, s) => {
  const cell = (kind, ...inside) => el("td", {className: kind}, ...inside);
  const dot = el("i", {className: "dot"}), on = el("input", {type: "checkbox", title: `torque of ${servo.name}`});
  const [low, high] = servo.ends.map(end => scale(s) * end);
  const goal = el("input", {
    type: "range", min: Math.ceil(10 * low) / 10, max: Math.floor(10 * high) / 10, step: 0.1, disabled: !live,
    title: `goal of ${servo.name}`,
  });
  goal.setAttribute("aria-label", `goal of ${servo.name}`);
  const [angle, heat, volts, off] = ["angle", "heat", "volts", ""].map(kind => cell(kind));
  const at = el("i"), words = el("span"), bar = el("i");
  const steps = nudges(s), line = el("tr", {}, cell("", dot), cell("", servo.name), cell("on", on), angle,
    cell("track", at, goal), cell("load", words, el("b", {}, bar)), heat, volts, off, cell("steps", ...steps));
  line.onclick = event => {
    if (!event.target.matches("input, button")) choose(s, event.ctrlKey || event.shiftKey || event.metaKey);
  };
  line.dataset.servo = servo.name;
  on.disabled = !live;
  on.onchange = () => { hands[`on${s}`] = performance.now(); ask("torque", {servos: [servo.name], on: on.checked}); };
  goal.oninput = () => { hands[s] = performance.now(); move(s, Number(goal.value) / scale(s)); };
  $("servos").querySelector("tbody").append(line);
  return {line, dot, on, goal, at, angle, words, bar, heat, volts, off, low, high};
});
const wait = {};
function move(s, to) {  // 20 a second at most, and the last of them always
  const first = !(s in wait);
  wait[s] = to;
  if (!first) return;
  ask("move", {servo: servos[s].name, to});
  setTimeout(() => { const last = wait[s]; delete wait[s]; if (last !== to) move(s, last); }, 50);
}
function nudge(s, by) {
  const at = row(), goal = source.value("goal", s, at), from = known(goal) ? goal : source.value("position", s, at);
  hands[s] = 0;
  if (known(from)) ask("move", {servo: servos[s].name, to: from + by / (servos[s].sliding ? 1000 : 180 / Math.PI)});
}
const free = key => performance.now() - (hands[key] || -1e9) > HANDS;
function drawTable(at) {
  const volts = servos.map((_, s) => source.value("voltage", s, at)).filter(known).sort((a, b) => a - b);
  const usual = volts[volts.length >> 1];
  rows.forEach((one, s) => {
    const [goal, position, load, volt, heat] = ["goal", "position", "load", "voltage", "temperature"].map(what =>
      source.value(what, s, at));
    const on = source.value("on", s, at) > 0, off = residual(s, at), lost = news.lost?.[servos[s].name];
    recent[s] = Math.max(recent[s] * 0.97, Math.abs(off) || 0);
    const odd = news.causes?.some(cause => cause.startsWith(`${servos[s].name}:`));
    const kind = lost ? "dot bad" : odd ? "dot warn" : on ? "dot on" : "dot";
    if (one.dot.className !== kind) one.dot.className = kind;
    const why = lost || (on ? "driven" : "limp");
    if (one.dot.title !== why) one.dot.title = why;
    if (one.line.className !== (on ? "" : "limp")) one.line.className = on ? "" : "limp";
    put(one.angle, told(s, position)); put(one.off, told(s, off));
    put(one.words, known(load) ? `${(100 * load).toFixed(0)} %` : "–");
    put(one.heat, known(heat) ? heat.toFixed(0) : "–"); put(one.volts, known(volt) ? volt.toFixed(1) : "–");
    one.heat.classList.toggle("odd", heat >= servos[s].hot); one.volts.classList.toggle("odd", Math.abs(volt - usual) > 0.7);
    const wide = Math.round(Math.min(50, 50 * Math.abs(load) || 0)), width = `${wide}%`, left = `${load < 0 ? 50 - wide : 50}%`;
    if (one.bar.style.width !== width || one.bar.style.left !== left) Object.assign(one.bar.style, {width, left});
    one.bar.classList.toggle("high", Math.abs(load) > 0.8);
    const share = Math.min(1, Math.max(0, (scale(s) * position - one.low) / (one.high - one.low)));
    const place = known(share) ? `calc(7px + ${(100 * share).toFixed(1)}% - ${(14 * share).toFixed(1)}px)` : "-20px";
    if (one.at.style.left !== place) one.at.style.left = place;
    const value = (scale(s) * (known(goal) ? goal : position)).toFixed(1);
    if (free(s) && known(Number(value)) && one.goal.value !== value) one.goal.value = value;
    if (free(`on${s}`) && one.on.checked !== on) one.on.checked = on;
    const mine = chosen.includes(s);
    if (one.line.hasAttribute("aria-selected") !== mine) one.line.toggleAttribute("aria-selected", mine);
  });
  const far = furthest(at), words = far ? [`residual ${told(far.s, Math.abs(far.by))} now`] : [];
  if (far && worst) words.push(`${told(worst.s, Math.abs(worst.by))} worst: ${servos[worst.s].name}`);
  put($("apart"), words.join(", "));
  $("apart").title = `residual: measured − ${compared ? (live ? "simulated" : all[1].label) : "goal"}`;
  put($("clock"), `${now().toFixed(live ? 1 : 2)}${live ? "" : ` / ${times.at(-1).toFixed(1)}`} s`);
  refreshDrawer();
}
function lookForWorst() {
  worst = null;
  for (let at = 0; at < times.length; at++) {
    const far = furthest(at);
    if (far && (!worst || Math.abs(far.by) > Math.abs(worst.by))) worst = far;
  }
}
function arrange() {
  const order = servos.map((_, s) => s);
  const lost = s => Number(Boolean(news.lost?.[servos[s].name]));
  if (sorted) order.sort((a, b) => lost(b) - lost(a) || recent[b] - recent[a]);
  const table = $("servos").querySelector("tbody");
  if (order.some((s, i) => table.children[i] !== rows[s].line)) table.append(...order.map(s => rows[s].line));
}
$("sort").onclick = () => { sorted = !sorted; $("sort").setAttribute("aria-pressed", sorted); arrange(); };
function choose(s, more = false) {
  if (more) chosen = chosen.includes(s) ? chosen.filter(one => one !== s) : [...chosen, s].slice(-MOST);
  else chosen = [s];
  if (!chosen.length) chosen = [s];
  rows[s].line.scrollIntoView({block: "nearest"});
  buildCurves();
  if (innerWidth > 820 && live) open("servo"); else if (drawer) open(drawer);
  Object.assign(due, {body: true, table: true});
  remember();
  ask_frame();
}

// ---- the curves
let plot = null;
const cursors = {from: null, to: null}, several = !live && all.length > 1;  // then each recording has its colour
function curvesOf() {
  const mine = chosen.flatMap((s, i) => [
    {s, what: "goal", which: -1, ink: several ? "command" : INK[i], width: 1, dash: [4, 3]},
    {s, what: "position", which: -1, ink: several ? INK[0] : INK[i], width: 1.7, dash: several && i ? [2 + 4 * i, 3] : []},
  ]);
  return [...mine, ...others.flatMap(which => chosen.map((s, i) => (
    {s, what: "other", which, ink: several ? INK[(which + 1) % 4] : INK[i], width: 1.3, dash: several && !i ? [] : [1, 3]}
  )))];
}
function dataOf(lines) {
  const first = live ? Math.max(0, rowAt(times, now() - SPAN)) : 0, x = times.slice(first, live ? row() + 1 : times.length);
  const numbers = (one, value) => { const made = scale(one.s) * value; return known(value) && known(made) ? made : null; };
  const mine = lines.filter(one => live || one.which < 0), tables = [[x, ...mine.map(one => x.map((_, i) =>
    numbers(one, one.what === "other" ? otherAt(one.which, one.s, first + i) : source.value(one.what, one.s, first + i))))]];
  if (!live) for (const which of others) {
    const beside = all[which + 1], own = lines.filter(one => one.which === which);
    tables.push([beside.times, ...own.map(one => beside.times.map((_, i) => numbers(one, beside.value("position", one.s, i))))]);
  }
  return tables.length === 1 ? tables[0] : uPlot.join(tables, tables.map(table => table.map(() => 2)));
}
function buildCurves() {
  plot?.destroy();
  const lines = curvesOf(), font = "11px system-ui, sans-serif";
  const spanned = () => live ? [Math.min(now() - 5, Math.max(times[0] ?? 0, now() - SPAN)), now()] : [0, times.at(-1) || 1];
  const padded = (_, low, high) => {
    const room = Math.max(0, 2 - (high - low)) / 2 + 0.06 * (high - low);
    return known(low) && known(high) ? [low - room, high + room] : [-1, 1];
  };
  const faint = () => ink("faint"), rule = {stroke: () => ink("rule"), width: 1};
  plot = new uPlot({
    width: $("curves").clientWidth || 100, height: $("curves").clientHeight, padding: [14, 14, 0, 14],
    legend: {show: false}, cursor: {show: false},
    scales: {x: {time: false, range: spanned}, y: {range: padded}},
    axes: [{stroke: faint, grid: rule, ticks: {show: false}, size: 20, gap: 2, font,
      values: (_, at) => at.map(one => `${Number(one.toFixed(2))} s`)},
      {stroke: faint, grid: rule, ticks: {show: false}, size: 0, values: () => []}],
    series: [{}, ...lines.map(one => ({stroke: () => ink(one.ink), width: one.width, dash: one.dash, points: {show: false},
      spanGaps: false, paths: one.what === "goal" ? uPlot.paths.stepped({align: 1}) : uPlot.paths.linear()}))],
    hooks: {draw: [annotate]},
  }, dataOf(lines), $("curves"));
  plot.lines = lines;
  const key = colour => el("i", {style: `background: var(--${colour})`});
  $("legend").replaceChildren(
    ...chosen.map((s, i) => el("span", {}, key(several ? INK[0] : INK[i]), el("b", {textContent: servos[s].name}), " ", el("output"))),
    ...(several ? all.map((one, i) => el("span", {}, key(INK[i % 4]), one.label)) : []));
  readCurves();
}
// Labels inside, flags where something happened, and the moment that is shown.
function annotate(u) {
  const {ctx, bbox} = u, dense = devicePixelRatio;
  marks(u, flags(), true, 1);
  ctx.save();
  ctx.font = `${11 * dense}px system-ui, sans-serif`;
  ctx.fillStyle = ink("faint");
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const unitName = sign(chosen[0] ?? 0);
  for (const value of u.axes[1]._splits || []) {
    const y = u.valToPos(value, "y", true);
    if (y < bbox.top + 8 * dense || y >= bbox.top + bbox.height) continue;
    ctx.fillText(`${Number(value.toFixed(2))}${unitName}`, bbox.left + 3 * dense, y - 3 * dense);
  }
  const x = u.valToPos(now(), "x", true);
  ctx.fillStyle = ink("ink");
  ctx.fillRect(x - dense / 2, bbox.top, dense, bbox.height);
  ctx.restore();
}
const happened = () => (news.events || []).map(([text, , last]) => [last, text.split(" (")[0]]);
const flags = () => live ? happened().filter(([at]) => at > now() - SPAN) : given.flags;
function readCurves() {
  const at = row();
  chosen.forEach((s, i) => {
    const goal = source.value("goal", s, at), output = $("legend").children[i]?.querySelector("output");
    const words = told(s, source.value("position", s, at), 2) + (known(goal) ? `, goal ${told(s, goal, 2)}` : "");
    if (output && at >= 0) put(output, words);
  });
  const u = plot, shown = cursors.from !== null;
  for (const id of ["from", "to"]) {
    $(id).hidden = !shown;
    if (shown && u) $(id).style.left = `${u.valToPos(cursors[id], "x") + u.bbox.left / devicePixelRatio}px`;
  }
  if (!shown) return put($("between"), "");
  const [a, b] = ["from", "to"].map(id => rowAt(times, cursors[id]));
  put($("between"), [`Δt ${Math.abs(times[b] - times[a]).toFixed(3)} s`, ...chosen.map(s => {
    const [one, two] = [a, b].map(i => source.value("position", s, i));
    return `${servos[s].name} ${told(s, one, 2)} → ${told(s, two, 2)}: Δ ${told(s, two - one, 2)}`;
  })].join(" · "));
}
function timeAt(event) {
  const left = $("curves").getBoundingClientRect().left + plot.bbox.left / devicePixelRatio;
  const time = plot.posToVal(event.clientX - left, "x");
  return Math.min(times.at(-1) ?? 0, Math.max(times[0] ?? 0, time));
}
function hold(time) {
  held = time;
  if (live) $("now").hidden = held === null; else $("play").textContent = playing ? "Pause" : "Play";
  Object.assign(due, {body: true, table: true, curves: true});
  remember();
  ask_frame();
}
let dragged = null;
$("curves").onpointerdown = event => {
  if (!plot || !times.length) return;
  dragged = event.target.classList.contains("cursor") ? event.target.id : "time";
  $("curves").setPointerCapture(event.pointerId);
  event.preventDefault();
  $("curves").onpointermove(event);
};
$("curves").onpointermove = event => {
  if (!dragged) return;
  if (dragged === "time") { playing = false; hold(times[rowAt(times, timeAt(event))]); }
  else { cursors[dragged] = times[rowAt(times, timeAt(event))]; readCurves(); }
};
$("curves").onpointerup = $("curves").onpointercancel = () => { dragged = null; };
$("measure").onclick = () => {
  const shown = cursors.from === null;
  if (shown && live && held === null) hold(times.at(-1));
  const [low, high] = live ? [Math.max(times[0] ?? 0, now() - SPAN), now()] : [0, times.at(-1)];
  const third = share => shown ? times[rowAt(times, low + share * (high - low) / 3)] : null;
  Object.assign(cursors, {from: third(1), to: third(2)});
  $("measure").setAttribute("aria-pressed", shown);
  readCurves();
};
$("now").onclick = () => { Object.assign(cursors, {from: null, to: null}); hold(null); };
$("play").onclick = () => { if (!playing && now() >= times.at(-1)) held = 0; playing = !playing; hold(now()); };
$("play").hidden = $("pace").hidden = live;
new ResizeObserver(() => {
  plot?.setSize({width: $("curves").clientWidth, height: $("curves").clientHeight});
  if (plot) readCurves();
}).observe($("curves"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { plot?.redraw(); if (body) { body.changed(); } });

// ---- frames: only what has changed is drawn, and nothing while nobody looks
let asked = false, last = 0, curvesAt = 0, tableAt = 0;
function ask_frame() { if (!asked) { asked = true; requestAnimationFrame(frame); } }
function frame(when) {
  asked = false;
  if (playing && times.length) {
    const next = now() + Math.min(0.1, (when - last) / 1000) * Number($("pace").value);
    held = next > times.at(-1) ? 0 : next;
    Object.assign(due, {body: true, table: true, curves: true});
  }
  last = when;
  const at = row();
  if (at >= 0) {
    if (due.body && body) { due.body = false; drawBody(at); }
    if (due.table && when - tableAt > 95) { due.table = false; tableAt = when; drawTable(at); }
    if (due.curves && plot && when - curvesAt > (held === null || playing ? 80 : 0)) {
      due.curves = false; curvesAt = when;
      if (live) plot.setData(dataOf(plot.lines)); else plot.redraw(false);
      readCurves();
    }
  }
  if (playing) ask_frame(); else if (due.table || due.curves || due.body) setTimeout(ask_frame, 100);
}

// ---- what is said, and the link to a moment
let inBar = 0;
function remember() {
  if (playing && !live) return;
  clearTimeout(inBar);
  inBar = setTimeout(() => {
    const names = chosen.map(s => servos[s].name).join(",");
    const parts = [held !== null && `t=${Number(held.toFixed(3))}`, names && `servo=${names}`].filter(Boolean);
    if (self === top) history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname);
  }, 200);
}
function recall() {
  const link = new URLSearchParams(location.hash.slice(1));
  const names = (link.get("servo") || "").split(",").map(number).filter(s => s >= 0);
  chosen = names.length ? names.slice(0, MOST) : [live ? 0 : worst?.s ?? 0];
  const time = parseFloat(link.get("t"));
  if (known(time)) { playing = false; held = time; if (!live) held = times[rowAt(times, time)]; }
  if (n) buildCurves();
  hold(held);
}
function tell() {
  const fresh = said.text && performance.now() - said.shown < SHOWN ? `${said.text}` : "", trouble = news.trouble || "";
  const text = [trouble, fresh && `${said.time.toFixed(0)} s: ${fresh}`].filter(Boolean).join("  ·  ");
  if ($("said").dataset.text !== text) { $("said").dataset.text = text; $("said").replaceChildren(el("span", {textContent: text})); }
  $("said").className = trouble ? news.level : "";
}
$("said").onclick = () => open("events");

// ---- the drawer
let drawer = null, refreshDrawer = () => {};
const line = (...inside) => el("p", {}, ...inside), title = textContent => el("h3", {textContent});
const button = (textContent, onclick, title = "") => el("button", {textContent, onclick, title});
const switches = some => [button("On", () => power(some, true)), button("Off", () => power(some, false))];
const amount = input => parseFloat(input.value.replace(",", "."));
function slider(text, value, change) {
  const words = el("output"), input = el("input", {type: "range", min: 0, max: 100, step: 0.5});
  let moved = -1e9;
  input.oninput = () => { moved = performance.now(); words.textContent = `${input.value} %`; change(Number(input.value) / 100); };
  return {node: line(el("label", {}, text, input, words)), refresh() {
    const now = 100 * value();
    if (performance.now() - moved > HANDS && known(now)) { input.value = now; put(words, `${Number(now.toFixed(1))} %`); }
  }};
}
const field = (value, more = {}) => el("input", {type: "text", value, autocomplete: "off", ...more});
const choice = (options, value = options[0]) => {
  const made = el("select", {}, ...options.map(text => el("option", {value: text, textContent: text})));
  made.value = value;
  return made;
};
function fill(table, cells) {  // only new texts, so that what is selected stays
  const text = JSON.stringify(cells);
  if (table.dataset.text === text) return;
  table.dataset.text = text;
  table.replaceChildren(...cells.map(line => el("tr", {}, ...line.map(textContent => el("td", {textContent})))));
}
const drawers = {
  servo() {
    const s = chosen[0], servo = servos[s], facts = line(), at = what => source.value(what, s, row());
    const parts = [el("h2", {textContent: servo.name}), facts], limits = line(`limits ${servo.ends.map(end => told(s, end)).join(" … ")}`);
    if (!live) return {parts: [...parts, limits], refresh() { put(facts, `at ${told(s, at("position"), 2)}`); }};
    const goal = field("", {inputMode: "decimal", title: "Enter sends it"});
    goal.onkeydown = event => { if (event.key === "Enter") goal.blur(); };
    goal.onchange = () => {
      if (NUMBER.test(goal.value.trim())) ask("move", {servo: servo.name, to: amount(goal) / scale(s)});
      else note(`"${goal.value}" is no number: nothing was sent`);
    };
    const limit = slider("its torque", () => news.torques?.[s] ?? NaN, share => ask("limit_torque", {servos: [servo.name], share}));
    return {
      parts: [...parts, line("goal", goal, ...nudges(s)), limits, limit.node,
        line(...switches([s]), button("Let it recover", () => ask("recover", {servo: servo.name}), "After an overload, or a limit of the rig")),
        ...(chosen.length > 1 ? [line(`all ${chosen.length} chosen`, ...switches(chosen))] : [])],
      refresh() {
        const words = [told(s, at("position")), at("on") > 0 ? `goal ${told(s, at("goal"))}` : "limp", news.lost?.[servo.name]];
        put(facts, words.filter(Boolean).join(", "));
        if (document.activeElement !== goal) goal.value = known(at("goal")) ? (scale(s) * at("goal")).toFixed(1) : "";
        limit.refresh();
      },
    };
  },
  robot() {
    const colour = choice(["parts", "load", "temperature", "residual"], tints);
    const mass = el("input", {type: "checkbox", checked: showMass});
    colour.onchange = () => { tints = colour.value; due.body = true; ask_frame(); };
    mass.onchange = () => { showMass = mass.checked; due.body = true; ask_frame(); };
    const look = [line(el("label", {}, "colour by", colour)), line(el("label", {}, mass, "centre of mass"))];
    if (!live) return {parts: [el("h2", {textContent: given.name}), ...look, ...given.notes.map(text => line(text))]};
    const speed = slider("speed of all", () => news.speed, share => ask("limit_speed", {share}));
    const everyone = servos.map((_, s) => s), names = servos.map(one => one.name);
    const strongest = () => Math.max(...(news.torques || [NaN]));
    const torque = slider("torque of all", strongest, share => ask("limit_torque", {servos: names, share}));
    const pose = choice(news.poses || []), seconds = field("1", {inputMode: "decimal"});
    const name = field("", {className: "wide", placeholder: "name"}), file = choice(given.moves), pace = field("1", {inputMode: "decimal"});
    const go = mirror => ask("way", {pose: pose.value, seconds: amount(seconds), mirror});
    const target = field(given.recording, {className: "wide"}), facts = el("table");
    const record = button("Record", () => news.recording ? ask("record_end") : ask("record", {name: target.value}));
    return {
      parts: [el("h2", {textContent: given.name}), line("torque, all", ...switches(everyone)), speed.node, torque.node,
        title("Poses"), line(pose, "in", seconds, "s"),
        line(button("Go", () => go(false)), button("Go to its mirror image", () => go(true))),
        line(name, button("Save the pose of now", () => ask("save", {name: name.value}))),
        ...(given.rise ? [line(button("Put it on its feet", () => ask("rise")))] : []), title("Move"),
        given.moves.length ? line(file, "pace", pace) : line("no move is in the folder where this was started"),
        line(button("Play", () => ask("play", {file: file.value, pace: amount(pace)})),
          button("Stop", () => ask("stop_move"), "By its exit page, where it has one")),
        title("Recording"), line(target, record), title("Shown"), ...look, title("Line"), facts],
      refresh() {
        speed.refresh(); torque.refresh();
        if (news.poses && pose.children.length !== news.poses.length) {
          const before = news.poses.includes(name.value) ? name.value : pose.value || news.poses[0];
          pose.replaceChildren(...choice(news.poses).children);
          pose.value = before;
        }
        put(record, news.recording ? `Stop recording ${news.recording}` : "Record"); target.hidden = Boolean(news.recording);
        fill(facts, news.line || []);
      },
    };
  },
  events() {
    const list = el("table", {className: live ? "" : "moments"});
    if (!live) list.onclick = ({target}) => { playing = false; hold(given.flags[target.closest("tr").rowIndex][0]); };
    return {parts: [el("h2", {textContent: "Events"}), list], refresh() {
      const found = live ? news.events || [] : given.flags.map(([at, text]) => [text, at, at, 1]);
      fill(list, found.map(([what, first, last, times]) => [
        last - first < 1 ? `${first.toFixed(live ? 0 : 2)} s` : `${first.toFixed(0)} … ${last.toFixed(0)} s`,
        times > 1 ? `${what} (× ${times})` : what]));
    }};
  },
};
function open(which) {
  const side = document.querySelector("aside"), before = drawer === which ? side.scrollTop : 0;
  drawer = which;
  side.hidden = !drawer;
  $("scene").classList.toggle("beside", Boolean(drawer) && innerWidth > 600);
  for (const one of document.querySelectorAll("[data-drawer]")) one.setAttribute("aria-pressed", one.dataset.drawer === drawer);
  refreshDrawer = () => {};
  if (!drawer) return;
  const {parts, refresh} = drawers[drawer](), close = button("×", () => open(null), "Close");
  close.className = "close";
  side.replaceChildren(close, ...parts);
  refreshDrawer = refresh || refreshDrawer;
  refreshDrawer();
  side.scrollTop = before;
}
for (const one of document.querySelectorAll("[data-drawer]")) one.onclick = () => open(drawer === one.dataset.drawer ? null : one.dataset.drawer);

// ---- the line to the robot
let socket = null;
const power = (some, on) => ask("torque", {servos: some.map(s => servos[s].name), on});
function note(text) { said = {text, time: times.at(-1) ?? 0, shown: performance.now()}; tell(); setTimeout(tell, SHOWN + 50); }
function ask(what, more = {}) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ask: what, ...more}));
  else note("the connection is cut: nothing was sent");
}
function hear({data}) {
  if (data instanceof ArrayBuffer) {
    stream.take(data);
    if (held !== null && held < times[0]) hold(null);
    if (held === null) due.body = due.table = due.curves = true;
    return ask_frame();
  }
  const message = JSON.parse(data);
  if (message.said.number !== news.said?.number && message.said.text) note(message.said.text);
  news = message;
  put($("state"), news.state); put($("rate"), news.rate);
  $("release").hidden = !news.stopped;
  tell();
  due.table = true;
  ask_frame();
}
function connect() {
  socket = new WebSocket(`${location.origin.replace("http", "ws")}/live`);
  socket.binaryType = "arraybuffer";
  socket.onmessage = hear;
  socket.onclose = () => setTimeout(connect, 1000);
}
put($("name"), given.name); put($("kind"), given.kind);
$("goal").title = "a bar is the goal, a dot where it is";
document.body.classList.add(live ? "live" : "replay");
$("off").hidden = !live;
if (live) {
  document.body.classList.add("stops");
  $("release").onclick = () => ask("release");
  connect();
  setInterval(() => { if (held === null) due.curves = true; lookForWorst(); if (sorted) arrange(); ask_frame(); }, 1000);
} else {
  lookForWorst();
  put($("state"), given.notes.join("; "));
}
recall();
if (!body && innerWidth > 820) open(live ? "servo" : "events");
ask_frame();
window.axbridge = {  // what tests look at
  body, source, cursors, get plot() { return plot; }, get held() { return held; },
  get chosen() { return chosen.map(s => servos[s].name); },
};
})();
