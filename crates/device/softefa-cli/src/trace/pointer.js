// Mouse, fingers and keys.
function place(picture, event) {
  const box = picture.getBoundingClientRect();
  return [Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)), box];
}

const at = share => view.from + share * (view.to - view.from);

// The event nearest to a place of a time line.
function nearest(panel, px, py) {
  let best = null, least = 14;
  panel.items.forEach(item => {
    const dx = Math.max(item.x0 - px, 0, px - item.x1), dy = Math.max(item.y0 - py, 0, py - item.y1);
    const far = dx + 2 * dy;
    if (far < least) { least = far; best = item; }
  });
  return best;
}

function tell(panel, item, clientX, clientY) {
  panel.cross.setAttribute('x1', item.x0);
  panel.cross.setAttribute('x2', item.x0);
  tip.textContent = item.text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  tip.style.left = Math.max(4, Math.min(clientX + 12, room - width - 4)) + 'px';
  tip.style.top = Math.max(4, clientY + 16 + height > innerHeight ? clientY - height - 10 : clientY + 16) + 'px';
}

function untell(panel) {
  tip.hidden = true;
  if (panel.cross) ['x1', 'x2'].forEach(name => panel.cross.setAttribute(name, -9));
}

// Chooses a part by dragging; `act` is told where it began and ended, from 0 to 1.
function drag(picture, act) {
  let began = null, box = null;
  picture.addEventListener('pointerdown', event => {
    if (event.button !== 0) return;
    began = place(picture, event)[0];
    try { picture.setPointerCapture(event.pointerId); } catch { /* A pointer that a script made up. */ }
  });
  picture.addEventListener('pointermove', event => {
    if (began === null) return;
    const [share, { width, height }] = place(picture, event);
    const scale = picture.viewBox.baseVal.width / width;
    if (!box) box = svg('rect', picture, { y: 0, height: height * scale, class: 'chosen' });
    box.setAttribute('x', Math.min(share, began) * width * scale);
    box.setAttribute('width', Math.abs(share - began) * width * scale);
  });
  const end = event => {
    if (began === null) return;
    const [share, { width }] = place(picture, event);
    const [from, to] = [Math.min(share, began), Math.max(share, began)];
    const isDragged = (to - from) * width > 5 && event.type === 'pointerup';
    began = null;
    if (box) box.remove();
    box = null;
    if (event.type === 'pointerup') act(from, to, isDragged);
  };
  picture.addEventListener('pointerup', end);
  picture.addEventListener('pointercancel', end);
}

drag(overview, (from, to, isDragged) => {
  const of = share => data.from + share * (data.to - data.from);
  const half = (view.to - view.from) / 2;
  if (isDragged) show(of(from), of(to)); else show(of(from) - half, of(from) + half);
});

panels.forEach(panel => {
  const { picture } = panel;
  drag(picture, (from, to, isDragged) => { if (isDragged) show(at(from), at(to)); });
  picture.addEventListener('pointermove', event => {
    const [share, box] = place(picture, event);
    const scale = picture.viewBox.baseVal.width / box.width;
    const item = nearest(panel, share * box.width * scale, (event.clientY - box.top) * scale);
    if (item) tell(panel, item, event.clientX, event.clientY); else untell(panel);
  });
  picture.addEventListener('pointerleave', () => untell(panel));
  picture.addEventListener('blur', () => untell(panel));
  picture.addEventListener('dblclick', () => show(data.from, data.to));
  picture.addEventListener('wheel', event => {
    if (event.ctrlKey) zoom(Math.exp(-event.deltaY / 200), place(picture, event)[0]);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / 800);
    else return;
    event.preventDefault();
  }, { passive: false });
  picture.addEventListener('keydown', event => {
    const acts = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), '+': () => zoom(2), '=': () => zoom(2),
      '-': () => zoom(1 / 2), 0: () => show(data.from, data.to), ArrowDown: () => step(panel, 1), ArrowUp: () => step(panel, -1) };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  });
});

// Goes from event to event, as they follow in time.
function step(panel, by) {
  if (!panel.items.length) return;
  panel.cursor = Math.min(panel.items.length - 1, Math.max(0, panel.cursor + by));
  const item = panel.items[panel.cursor], box = panel.picture.getBoundingClientRect();
  const scale = box.width / panel.picture.viewBox.baseVal.width;
  tell(panel, item, box.left + item.x0 * scale, box.top + item.y1 * scale);
}

// A row of the longest messages shows its message.
addEventListener('DOMContentLoaded', () => {
  const caption = [...document.querySelectorAll('caption')].find(caption => caption.textContent === 'The longest messages');
  const rows = caption ? [...caption.parentElement.tBodies[0].rows] : [];
  rows.forEach((row, index) => {
    const [start, took] = data.longest[index];
    const cell = row.cells[0], name = cell.textContent;
    cell.textContent = '';
    html('button', cell, { type: 'button', class: 'go', title: 'Show it on the time line' }, name).onclick = () => {
      const margin = Math.max(500, took * 0.25);
      show(start - margin, start + took + margin);
      const panel = panels.find(panel => panel.pair.name === name);
      if (panel) { panel.box.open = true; panel.box.scrollIntoView({ block: 'center' }); }
    };
  });
});
let lastWidth = root.getBoundingClientRect().width;
new ResizeObserver(() => {
  const width = root.getBoundingClientRect().width;
  if (width !== lastWidth) { lastWidth = width; redraw(); }
}).observe(root);
draw();
