// Draws the figures of a page with uPlot: a plot for each panel; figures with the same axis share cursor and x range.
"use strict";
const drawn = new Map();  // box of a figure -> its plots
const ranges = {};  // axis -> [from, to] chosen by the user
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const words = value => value == null ? "–" : Math.abs(value) >= 100 ? value.toFixed(1) : value.toFixed(2);

function bytes(text) {
  return Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer;
}

// y values are 16-bit integers, a share of their range; -32768 is a gap.
function heights([text, low, step]) {
  return Array.from(new Int16Array(bytes(text)), share => share === -32768 ? null : low + (share + 32767) * step);
}

function table(panel, axes) {
  const tables = new Map();
  for (const curve of panel.curves) {
    if (!tables.has(curve.x)) tables.set(curve.x, [axes[curve.x]]);
    tables.get(curve.x).push(heights(curve.y));
  }
  const kept = [...tables.values()];
  return kept.length === 1 ? kept[0] : uPlot.join(kept, kept.map(one => one.map(() => 2)));
}

function legend(box, panel) {
  const line = document.createElement("p");
  line.className = "legend";
  line.append(Object.assign(document.createElement("b"), {textContent: panel.y}));
  const values = panel.curves.map(curve => {
    const entry = document.createElement("span"), value = document.createElement("output");
    const key = Object.assign(document.createElement("i"), {style: `background: var(--${curve.colour})`});
    if (curve.label) entry.append(key, curve.label, " ", value);
    line.append(entry);
    return value;
  });
  box.append(line);
  return values;
}

// Starts of segments: dotted lines through each panel, names in rows above the first panel where there is room.
function marks(plot, spots, named, rows = 2) {
  const {ctx, bbox} = plot, dense = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ink("zero");
  ctx.fillStyle = ink("faint");
  ctx.font = `${11 * dense}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.setLineDash([2 * dense, 3 * dense]);
  const reach = new Array(rows).fill(-Infinity);
  spots.forEach(([at, name], index) => {
    const x = plot.valToPos(at, "x", true);
    if (x < bbox.left - 1 || x > bbox.left + bbox.width) return;
    if (index) {
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    }
    const end = x + ctx.measureText(name).width + 8 * dense, row = reach.findIndex(taken => taken <= x);
    if (!named || row < 0 || end > bbox.left + bbox.width + 8 * dense) return;
    ctx.fillText(name, x, bbox.top - (4 + 13 * row) * dense);
    reach[row] = end;
  });
  ctx.restore();
}

function range(axis, from, to) {
  if (from == null) delete ranges[axis]; else ranges[axis] = [from, to];
  for (const [box, plots] of drawn) {
    if (box.figure.axis !== axis) continue;
    for (const plot of plots) plot.setScale("x", reach(plot, axis));
  }
}

function reach(plot, axis) {
  const [min, max] = ranges[axis] || [plot.data[0][0], plot.data[0].at(-1)];
  return {min, max};
}

function draw(box) {
  const {panels, axes, axis, marks: spots} = box.figure;
  const xs = axes.map(text => Array.from(new Float32Array(bytes(text))));
  const faint = () => ink("faint"), rule = {stroke: () => ink("rule"), width: 1};
  const axisStyle = {stroke: faint, grid: rule, ticks: {show: false}, font: "12px system-ui, sans-serif"};
  const plots = [];
  panels.forEach((panel, index) => {
    const values = legend(box, panel), first = index === 0, last = index === panels.length - 1;
    const named = first && spots.some(([, name]) => name);
    const plot = new uPlot({
      width: box.clientWidth, height: panel.height + (last ? 42 : 8) + (named ? 26 : 0),
      padding: [named ? 30 : 6, 14, last ? 0 : 4, 0],
      legend: {show: false},
      scales: {x: {time: false}},
      cursor: {sync: {key: axis}, points: {size: 6}, drag: {x: true, y: false, setScale: false}},
      axes: [
        last ? {...axisStyle, size: 24, label: panel.x, labelSize: 18, labelFont: "12px system-ui, sans-serif"}
          : {...axisStyle, size: 0, values: () => []},
        {...axisStyle, size: 46, space: 18},
      ],
      series: [{}, ...panel.curves.map(curve => ({
        stroke: () => ink(curve.colour), fill: null, width: curve.width,
        paths: curve.held ? uPlot.paths.stepped({align: 1}) : uPlot.paths.linear(),
        points: {show: false},
      }))],
      hooks: {
        draw: [plot => marks(plot, spots, named)],
        setCursor: [plot => values.forEach((value, curve) => {
          const at = plot.cursor.idxs?.[curve + 1] ?? plot.cursor.idx;
          value.textContent = at == null ? "" : words(plot.data[curve + 1][at]);
        })],
        setSelect: [plot => {
          if (plot.select.width < 5) return;
          const from = plot.posToVal(plot.select.left, "x"), to = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({width: 0, height: 0, left: 0, top: 0}, false);
          range(axis, from, to);
        }],
      },
    }, table(panel, xs), box);
    plot.over.addEventListener("dblclick", () => range(axis));
    if (ranges[axis]) plot.setScale("x", reach(plot, axis));
    plots.push(plot);
  });
  drawn.set(box, plots);
}

const near = new IntersectionObserver(seen => seen.forEach(one => {
  if (one.isIntersecting && !drawn.has(one.target)) draw(one.target);
}), {rootMargin: "600px"});
const fitted = new ResizeObserver(seen => seen.forEach(({target}) => (drawn.get(target) || []).forEach(plot => {
  if (plot.width !== target.clientWidth) plot.setSize({width: target.clientWidth, height: plot.height});
})));

function figure(description) {
  const box = document.currentScript.parentElement;
  box.figure = description;
  near.observe(box);
  fitted.observe(box);
}

addEventListener("click", event => {
  const button = event.target.closest("button[data-axis]");
  if (!button) return;
  const {axis, from, to, figure: where} = button.dataset;
  range(axis, from && Number(from), to && Number(to));
  if (where) document.getElementById(where).scrollIntoView({behavior: "smooth", block: "center"});
});
const again = () => drawn.forEach(plots => plots.forEach(plot => plot.redraw(false)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
addEventListener("beforeprint", () => {
  document.querySelectorAll(".figure").forEach(box => drawn.has(box) || draw(box));
  drawn.forEach(plots => plots.forEach(plot => plot.setSize({width: Math.min(plot.width, 680), height: plot.height})));
  again();
});
