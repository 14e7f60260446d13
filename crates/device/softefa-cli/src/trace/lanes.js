// The lanes of a time line, drawn for what is in view.
const TITLE = 15, GAP = 6, AXIS = 18;
const BARS_MAX = 500, TICKS_MAX = 800;
const COLUMN = 2;
const MARK_LANES = [
  ['Lost', [KIND.loss], 'loss'], ['Receiver not ready', [NOT_READY], 'rnr'], ['Refused or dropped', [KIND.reject, KIND.drop], 'drop'],
  ['Timers', [KIND.timer], 'timer'], ['Connection and state', [KIND.peer, KIND.state], 'state'], ['Faults set and dealt', [KIND.fault], 'dealt'],
];
const isIn = at => at >= view.from && at < view.to;
const is = (mark, kinds) => kinds.includes(mark[1]) || (mark[2] === 1 && kinds.includes(NOT_READY));
const told = mark => moment(mark[0], 1000) + ' ' + data.kinds[mark[1]] + '\n' + mark[3];

// Left edge, width and count of each column in view, of counts by bins or of moments.
function columns(width, bins, moments) {
  const perPx = width / (view.to - view.from);
  const binPx = BIN_NS * perPx;
  const made = new Map();
  const add = (left, wide, count) => {
    const known = made.get(left);
    if (known) known[2] += count; else made.set(left, [left, wide, count]);
  };
  if (moments) {
    moments.forEach(at => add(Math.floor((at - view.from) * perPx / COLUMN) * COLUMN, COLUMN, 1));
    return [[...made.values()], COLUMN / perPx];
  }
  for (let at = 0; at < bins.length; at += 2) {
    const left = (data.from + bins[at] * BIN_NS - view.from) * perPx;
    if (left + binPx <= 0 || left >= width) continue;
    if (binPx >= COLUMN) add(left, binPx, bins[at + 1]);
    else add(Math.floor(left / COLUMN) * COLUMN, COLUMN, bins[at + 1]);
  }
  return [[...made.values()], Math.max(binPx, COLUMN) / perPx];
}

function block(left, top, wide, high) {
  return `M${left.toFixed(2)} ${top.toFixed(2)}h${wide.toFixed(2)}v${high.toFixed(2)}h${(-wide).toFixed(2)}z`;
}

function ticks(width) {
  const least = (view.to - view.from) * 110 / width;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= least);
  const made = [];
  for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) made.push(at);
  return [made, step];
}

function drawAxis(picture, width, top, height) {
  const [all, step] = ticks(width);
  all.forEach(at => {
    const x = (at - view.from) / (view.to - view.from) * width;
    svg('line', picture, { x1: x, x2: x, y1: 0, y2: top, class: 'grid' });
    const text = moment(at, step);
    const half = text.length * 3.2;
    const middle = Math.min(width - half, Math.max(half, x));
    svg('text', picture, { x: middle, y: top + height - 5, class: 'tick', 'text-anchor': 'middle' }, text);
  });
}

const widthOf = picture => Math.max(240, Math.round(picture.getBoundingClientRect().width) || 700);

function drawOverview() {
  const width = widthOf(overview), height = 44;
  overview.replaceChildren();
  overview.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const kept = view;
  view = { from: data.from, to: data.to };
  const of = kinds => {
    const sum = new Map();
    data.queuePairs.forEach(pair => kinds.forEach(kind => {
      columns(width, pair.bins[kind])[0].forEach(([left, wide, count]) => {
        sum.set(left, [wide, (sum.get(left) || [0, 0])[1] + count]);
      });
    }));
    return sum;
  };
  const all = of([KIND.transmit, KIND.retransmit, KIND.receive, KIND.post, KIND.completion]);
  const bad = of([KIND.loss, KIND.reject, KIND.drop, NOT_READY]);
  view = kept;
  data.queuePairs.forEach(pair => pair.faults.forEach(([from, to]) => {
    const x = at => (at - data.from) / (data.to - data.from) * width;
    svg('rect', overview, { x: x(from), y: 0, width: Math.max(1, x(to) - x(from)), height, class: 'k-fault' });
  }));
  const most = Math.max(1, ...[...all.values()].map(value => value[1]));
  let path = '';
  all.forEach(([wide, count], left) => { path += block(left, height - 34 * count / most, wide, 34 * count / most); });
  svg('path', overview, { d: path, class: 'k-sent' });
  path = '';
  bad.forEach(([wide], left) => { path += block(left, 1, Math.max(2, wide), 6); });
  svg('path', overview, { d: path, class: 'k-loss' });
  const x = at => (at - data.from) / (data.to - data.from) * width;
  svg('rect', overview, { x: x(view.from), y: 0.5, width: Math.max(3, x(view.to) - x(view.from)), height: height - 1, class: 'window' });
}

function drawPanel(panel) {
  const { picture, pair } = panel;
  const width = widthOf(picture);
  const x = at => (at - view.from) / (view.to - view.from) * width;
  panel.items = [];
  panel.cursor = -1;
  panel.drawn = view;
  const lanes = [messages, packets, ...MARK_LANES.map(lane => (...args) => marks(lane, ...args)), paths, answers]
    .map(make => make(panel, width, x)).filter(lane => lane);
  const named = faultNames(pair, width, x);
  let top = named.height;
  lanes.forEach(lane => { lane.top = top + TITLE; top = lane.top + lane.height + GAP; });
  panel.height = top;
  picture.replaceChildren();
  picture.setAttribute('viewBox', `0 0 ${width} ${top + AXIS}`);
  named.draw(picture, top);
  drawAxis(picture, width, top, AXIS);
  lanes.forEach(lane => {
    svg('text', picture, { x: 2, y: lane.top - 4, class: 'title' }, lane.title);
    svg('line', picture, { x1: 0, x2: width, y1: lane.top + lane.height, y2: lane.top + lane.height, class: 'grid' });
    lane.draw(lane.top);
  });
  panel.items.sort((one, other) => one.x0 - other.x0);
  panel.cross = svg('line', picture, { x1: -9, x2: -9, y1: 0, y2: top, class: 'cross' });
}

// Faults in force stand behind all lanes.
function faultNames(pair, width, x) {
  const seen = pair.faults.filter(([from, to]) => to > view.from && from < view.to);
  return {
    height: seen.length ? 16 : 2,
    draw(picture, height) {
      let free = 0;
      seen.forEach(([from, to, spec, by]) => {
        const left = Math.max(0, x(from)), right = Math.min(width, x(to));
        svg('rect', picture, { x: left, y: 0, width: Math.max(1, right - left), height, class: 'k-fault' });
        const text = spec + ' (' + by + ')';
        const at = Math.max(0, Math.min(left + 3, width - text.length * 6.2 - 3));
        if (at < free) return;
        free = at + text.length * 6.2 + 8;
        const room = Math.floor((width - at) / 6.2);
        svg('text', picture, { x: at, y: 11, class: 'spec' }, text.length > room ? text.slice(0, room - 1) + '…' : text);
      });
    },
  };
}

function messages({ pair, picture, items }, width, x) {
  if (!pair.messages.length) return null;
  const seen = pair.messages.filter(([start, took]) => start < view.to && start + took >= view.from);
  const most = Math.max(1, ...pair.open);
  const height = 84;
  const title = `Messages open at once, at most ${most}`;
  const draw = top => {
    let path = '';
    const perPx = width / (view.to - view.from);
    pair.open.forEach((open, bin) => {
      const left = (data.from + bin * BIN_NS - view.from) * perPx;
      if (open && left + BIN_NS * perPx > 0 && left < width) {
        path += block(left, top + height * (1 - open / most), BIN_NS * perPx, height * open / most);
      }
    });
    svg('path', picture, { d: path, class: 'open' + (seen.length <= BARS_MAX ? ' faint' : '') });
    const bars = seen.length <= BARS_MAX ? seen : seen.filter(message => message[4] === 1).slice(0, BARS_MAX);
    const ends = [];
    const rows = bars.map(([start, took]) => {
      let row = ends.findIndex(end => end <= x(start));
      if (row < 0) row = ends.length;
      ends[row] = Math.max(x(start) + 2, x(start + took)) + 1;
      return row;
    });
    const high = Math.min(12, height / Math.max(1, ends.length));
    bars.forEach((message, at) => drawBar(picture, items, message, x, top + rows[at] * high, Math.max(1, high - 1)));
  };
  return { title, height, draw };
}

function drawBar(picture, items, [start, took, op, len, state, what], x, y, high) {
  const left = Math.max(-2, x(start)), right = Math.max(left + 1.5, Math.min(x(start + took), 1e5));
  const family = ['SEND', 'WRITE', 'READ'].find(name => op.toUpperCase().startsWith(name)) || 'other';
  const look = state === 1 ? 'k-failed' : 'k-' + family.toLowerCase() + (state === 2 ? ' endless' : '');
  svg('rect', picture, { x: left, y, width: right - left, height: high, class: look });
  const end = state === 2 ? 'not ended after ' : 'took ';
  items.push({ x0: left, x1: right, y0: y, y1: y + high, at: start,
    text: `${moment(start, 1000)} ${op}, ${len} bytes, ${what}\n${end}${duration(took)}` });
}

function packets(panel, width, x) {
  const { pair, picture, items, total } = panel;
  const kinds = [KIND.transmit, KIND.retransmit, KIND.receive];
  if (!kinds.some(kind => total[kind])) return null;
  const isWhole = kinds.every(panel.isWhole);
  const seen = pair.marks.filter(mark => isIn(mark[0]) && kinds.includes(mark[1]));
  const height = 64, middle = height / 2;
  const single = isWhole && seen.length <= TICKS_MAX;
  const of = kind => columns(width, pair.bins[kind], isWhole && seen.filter(mark => mark[1] === kind).map(mark => mark[0]));
  const [[sent, per], [again], [received]] = kinds.map(of);
  const counts = new Map();
  [sent, again, received].forEach((list, at) => list.forEach(([left, wide, count]) => {
    const known = counts.get(left) || [wide, 0, 0, 0];
    known[at + 1] += count;
    counts.set(left, known);
  }));
  let most = 1;
  counts.forEach(([, a, b, c]) => { most = Math.max(most, a + b, c); });
  const title = single ? 'Sent above, received below'
    : `Sent above, received below; at most ${most} in ${duration(per)}; √ scale`;
  const draw = top => {
    svg('line', picture, { x1: 0, x2: width, y1: top + middle, y2: top + middle, class: 'grid' });
    if (single) {
      seen.forEach(mark => {
        const isReceived = mark[1] === KIND.receive, isAgain = mark[1] === KIND.retransmit;
        const y = top + (isReceived ? middle + 2 : isAgain ? 2 : 10), high = isReceived ? 20 : middle - (isAgain ? 4 : 12);
        const look = isReceived ? 'k-received' : isAgain ? 'k-again' : 'k-sent';
        svg('rect', picture, { x: x(mark[0]) - 0.8, y, width: 1.6, height: high, class: look });
        items.push({ x0: x(mark[0]), x1: x(mark[0]), y0: y, y1: y + high, at: mark[0], text: told(mark) });
      });
      return;
    }
    const path = ['', '', ''];
    const high = count => Math.sqrt(count / most) * (middle - 2);
    counts.forEach(([wide, a, b, c], left) => {
      // What was sent again stands on top, and is seen however little it is.
      const both = high(a + b), upper = b ? Math.max(2, both * b / (a + b)) : 0;
      path[0] += a ? block(left, top + middle - both + upper, wide, both - upper) : '';
      path[1] += b ? block(left, top + middle - both, wide, upper) : '';
      path[2] += c ? block(left, top + middle, wide, high(c)) : '';
      items.push({ x0: left, x1: left + wide, y0: top, y1: top + height, at: view.from + left / width * (view.to - view.from),
        text: `${a} sent, ${b} sent again, ${c} received\nin ${duration(per)}` });
    });
    ['k-sent', 'k-again', 'k-received'].forEach((look, at) => svg('path', picture, { d: path[at], class: look }));
  };
  return { title, height, draw };
}

function marks([title, kinds, look], panel, width, x) {
  const { pair, picture, items, total } = panel;
  const all = kinds.reduce((sum, kind) => sum + total[kind], 0);
  if (!all) return null;
  const isWhole = kinds.every(panel.isWhole);
  const height = 14;
  const draw = top => {
    const seen = pair.marks.filter(mark => isIn(mark[0]) && is(mark, kinds));
    if (!isWhole || seen.length > TICKS_MAX) {
      kinds.forEach(kind => {
        const [made, per] = columns(width, pair.bins[kind]);
        svg('path', picture, { d: made.map(([left, wide]) => block(left, top + 2, wide, height - 4)).join(''), class: 'k-' + look });
        made.forEach(([left, wide, count]) => items.push({ x0: left, x1: left + wide, y0: top, y1: top + height,
          at: view.from + left / width * (view.to - view.from), text: `${count}: ${title.toLowerCase()}\nin ${duration(per)}` }));
      });
      return;
    }
    seen.forEach(mark => {
      svg('rect', picture, { x: x(mark[0]) - 1, y: top + 1, width: 2, height: height - 2, class: 'k-' + look });
      items.push({ x0: x(mark[0]), x1: x(mark[0]), y0: top, y1: top + height, at: mark[0], text: told(mark) });
    });
  };
  return { title: `${title}: ${all}`, height, draw };
}

function paths({ pair, picture, items }, width) {
  if (pair.paths.length < 2) return null;
  const row = 11;
  const left = pair.pathsLeft ? `, ${pair.pathsLeft} more in the table` : '';
  const draw = top => {
    const sums = new Map();
    const all = pair.paths.map(path => columns(width, path.sent));
    all.forEach(([made]) => made.forEach(([left, , count]) => sums.set(left, (sums.get(left) || 0) + count)));
    pair.paths.forEach((path, at) => {
      const [made, per] = all[at], y = top + at * row, bands = ['', '', '', ''];
      made.forEach(([left, wide, count]) => {
        const share = count / sums.get(left);
        bands[Math.min(3, Math.floor(share * 4))] += block(left, y + 1, wide, row - 2);
        items.push({ x0: left, x1: left + wide, y0: y, y1: y + row, at: view.from + left / width * (view.to - view.from),
          text: `path ${path.id}: ${count} of ${sums.get(left)} sent (${(100 * share).toFixed(0)} %)\nin ${duration(per)}` });
      });
      bands.forEach((path, band) => svg('path', picture, { d: path, class: 'k-path', opacity: 0.25 + 0.25 * band }));
      svg('text', picture, { x: width - 2, y: y + row - 2, class: 'tick small', 'text-anchor': 'end' }, String(path.id));
    });
  };
  return { title: 'Paths: the darker, the larger their share' + left, height: row * pair.paths.length, draw };
}

function answers({ pair, picture, items }, width) {
  const seen = pair.paths.map(path => {
    const points = [];
    for (let at = 0; at < path.answers.length; at += 3) {
      const middle = data.from + (path.answers[at] + 0.5) * BIN_NS;
      if (middle + BIN_NS > view.from && middle - BIN_NS < view.to) points.push([middle, path.answers[at + 1], path.answers[at + 2]]);
    }
    return points;
  });
  if (!pair.paths.some(path => path.answers.length)) return null;
  const times = seen.flat().map(point => Math.max(1, point[1]));
  const [least, most] = times.length ? [Math.min(...times), Math.max(...times)] : [1, 10];
  const low = Math.log10(least) - 0.1, high = Math.log10(most) + 0.1;
  const height = 84;
  const draw = top => {
    const y = ns => top + height - 2 - (Math.log10(Math.max(1, ns)) - low) / (high - low) * (height - 4);
    const powers = [];
    for (let power = Math.ceil(low); power <= high; power++) powers.push(power);
    for (const power of powers) svg('line', picture, { x1: 0, x2: width, y1: y(10 ** power), y2: y(10 ** power), class: 'grid' });
    seen.forEach((points, at) => {
      const x = ns => (ns - view.from) / (view.to - view.from) * width;
      // No line over a time without answers.
      const isNear = at => at > 0 && points[at][0] - points[at - 1][0] < Math.max(3 * BIN_NS, (view.to - view.from) / 60);
      const d = points.map(([middle, mean], at) => `${isNear(at) ? 'L' : 'M'}${x(middle).toFixed(1)} ${y(mean).toFixed(1)}h0`).join('');
      svg('path', picture, { d, class: 'rtt rtt' + at % 6 });
      points.forEach(([middle, mean, worst]) => {
        if (points.length < 80) svg('circle', picture, { cx: x(middle), cy: y(mean), r: 2, class: 'rtt rtt' + at % 6 + ' dot' });
        items.push({ x0: x(middle), x1: x(middle), y0: y(mean) - 6, y1: y(mean) + 6, at: middle,
          text: `path ${pair.paths[at].id}: acknowledged after ${duration(mean)}\nat most ${duration(worst)}, within ${duration(BIN_NS)}` });
      });
    });
    // Over the curves, so that they can be read.
    for (const power of powers) svg('text', picture, { x: 2, y: y(10 ** power) - 2, class: 'tick small' }, duration(10 ** power));
  };
  return { title: `Until acknowledged, by path: ${duration(least)} to ${duration(most)} (means)`, height, draw };
}
