// A point for each run over any two of its numbers.

import {safe, short} from './api.js';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [620, 380, 60, 12, 12, 40];

function svg(tag, attributes, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = safe(text);
  return node;
}

/** The axis of values: their places, and marks at round numbers. */
function axis(values, isLog, from, to) {
  const turn = isLog ? Math.log10 : value => value;
  const all = values.map(turn);
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const edge = (high - low) * 0.05;
  [low, high] = [low - edge, high + edge];
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = isLog ? Math.max(1, Math.round(rough)) : power * [1, 2, 5, 10].find(one => one * power >= rough);
  const marks = [];
  for (let mark = Math.ceil(low / step) * step; mark <= high; mark += step) marks.push(isLog ? 10 ** mark : mark);
  return {place: value => from + (turn(value) - low) / (high - low) * (to - from), marks};
}

/** The picture of points `{x, y, name, open}`, named by its axes. */
export function scatter(points, titles, isLog) {
  const isDrawn = point => Number.isFinite(point.x) && Number.isFinite(point.y) && (!isLog.x || point.x > 0) && (!isLog.y || point.y > 0);
  const drawn = points.filter(isDrawn);
  const picture = svg('svg', {class: 'scatter', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'group', 'aria-label': `${safe(titles.y)} over ${safe(titles.x)}`});
  if (!drawn.length) {
    picture.append(svg('text', {x: WIDTH / 2, y: HEIGHT / 2, 'text-anchor': 'middle'}, 'no run has both numbers'));
    return picture;
  }
  const x = axis(drawn.map(point => point.x), isLog.x, LEFT, WIDTH - RIGHT);
  const y = axis(drawn.map(point => point.y), isLog.y, HEIGHT - BOTTOM, TOP);
  for (const mark of x.marks) {
    picture.append(svg('path', {class: 'grid', d: `M${x.place(mark)} ${TOP}V${HEIGHT - BOTTOM}`}), svg('text', {x: x.place(mark), y: HEIGHT - BOTTOM + 15, 'text-anchor': 'middle'}, short(mark)));
  }
  for (const mark of y.marks) {
    picture.append(svg('path', {class: 'grid', d: `M${LEFT} ${y.place(mark)}H${WIDTH - RIGHT}`}), svg('text', {x: LEFT - 6, y: y.place(mark) + 4, 'text-anchor': 'end'}, short(mark)));
  }
  picture.append(svg('text', {x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, 'text-anchor': 'middle'}, titles.x), svg('text', {x: 4, y: TOP, 'text-anchor': 'start'}, titles.y));
  for (const point of drawn) {
    const text = `${point.name}: ${short(point.x)}, ${short(point.y)}`;
    const dot = svg('circle', {class: 'dot', cx: x.place(point.x), cy: y.place(point.y), r: 4.5, tabindex: 0, role: 'link', 'aria-label': safe(text)});
    dot.append(svg('title', {}, text));
    dot.addEventListener('click', point.open);
    dot.addEventListener('keydown', event => event.key === 'Enter' && point.open());
    picture.append(dot);
  }
  return picture;
}
