// What is seen of the time, and what all parts of the page share.
const data = JSON.parse(document.getElementById('data').textContent);
const root = document.getElementById('line');
const KIND = Object.fromEntries(data.kinds.map((name, at) => [name, at]));
const NOT_READY = data.kinds.length;
const BIN_NS = (data.to - data.from) / data.bins;
const NARROWEST_NS = 100;
let view = { from: data.from, to: data.to };

function html(name, parent, attributes = {}, text = '') {
  const made = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.textContent = text;
  parent.append(made);
  return made;
}

function svg(name, parent, attributes = {}, text = '') {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

// A moment, with as many digits as a step needs.
function moment(ns, stepNs) {
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(stepNs / 1e9) - 1e-9)));
  return (ns / 1e9).toFixed(digits) + ' s';
}

function duration(ns) {
  const [unit, size] = ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['µs', 1e3] : ['ns', 1];
  const value = ns / size;
  return (value >= 100 || size === 1 ? value.toFixed(0) : value.toPrecision(3)) + ' ' + unit;
}

function show(from, to) {
  const all = data.to - data.from;
  const span = Math.min(all, Math.max(Math.min(NARROWEST_NS, all), to - from));
  const middle = (from + to) / 2;
  const begin = Math.min(data.to - span, Math.max(data.from, middle - span / 2));
  view = { from: begin, to: begin + span };
  redraw();
}

// Zooms by a factor around a place from 0 to 1.
function zoom(factor, place = 0.5) {
  const span = view.to - view.from;
  const fixed = view.from + span * place;
  show(fixed - span * place / factor, fixed + span * (1 - place) / factor);
}

function pan(share) {
  const step = (view.to - view.from) * share;
  const least = data.from - view.from, most = data.to - view.to;
  const by = Math.min(most, Math.max(least, step));
  show(view.from + by, view.to + by);
}

// The toolbar, which stays in sight, with the whole run in small.
const bar = html('div', root, { class: 'controls' });
const buttons = html('div', bar, { class: 'buttons', role: 'toolbar', 'aria-label': 'Part of the time' });
[['−', 'Zoom out', () => zoom(1 / 2)], ['+', 'Zoom in', () => zoom(2)], ['◀', 'Earlier', () => pan(-0.5)],
  ['▶', 'Later', () => pan(0.5)], ['All', 'The whole run', () => show(data.from, data.to)]]
  .forEach(([text, title, act]) => {
    html('button', buttons, { type: 'button', title, 'aria-label': title }, text).onclick = act;
  });
const said = html('output', buttons, { class: 'said' });
const overview = svg('svg', bar, { class: 'overview', role: 'img', 'aria-label': 'The whole run; drag to choose a part' });
const legend = html('p', root, { class: 'legend soft' });
[['send', 'SEND'], ['write', 'WRITE'], ['read', 'READ'], ['failed', 'failed'], ['sent', 'sent'], ['again', 'sent again'],
  ['received', 'received'], ['fault', 'fault in force']].forEach(([name, text]) => {
  const item = html('span', legend);
  html('i', item, { class: 'k-' + name });
  item.append(text);
});
html('p', root, { class: 'soft help' },
  'Drag over a time line to zoom in, double-click for the whole run; Ctrl and wheel or two fingers zoom, the wheel sideways ' +
  'moves. With the keyboard: left and right move, + and − zoom, 0 shows all, up and down go from event to event.');

const panels = data.queuePairs.map((pair, at) => {
  const box = html('details', root, { class: 'pair' });
  box.open = at < 6;
  html('summary', box, {}, pair.name);
  const picture = svg('svg', box, { tabindex: 0, role: 'group', 'aria-label': 'Time line of ' + pair.name });
  const marked = new Array(NOT_READY + 1).fill(0);
  pair.marks.forEach(mark => {
    marked[mark[1]]++;
    marked[NOT_READY] += mark[2];
  });
  const total = pair.bins.map(bins => bins.reduce((sum, value, at) => sum + (at % 2 ? value : 0), 0));
  const panel = { pair, box, picture, total, items: [], lanes: [], cursor: -1 };
  // Whether each event of a kind has a mark of its own.
  panel.isWhole = kind => marked[kind] === total[kind];
  box.addEventListener('toggle', () => { if (box.open && panel.drawn !== view) redraw(); });
  return panel;
});
const tip = html('div', document.body, { class: 'tip', role: 'status', hidden: '' });

let isAsked = false;
function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(draw);
}

function draw() {
  isAsked = false;
  tip.hidden = true;
  const span = view.to - view.from;
  said.textContent = moment(view.from, span / 1000) + ' to ' + moment(view.to, span / 1000) + ' (' + duration(span) + ')';
  drawOverview();
  panels.filter(panel => panel.box.open).forEach(drawPanel);
}
