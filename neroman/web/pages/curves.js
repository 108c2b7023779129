// Curves: the server's pictures, with a read-out below the pointer and zoom by dragging.

import {ask, duration, el, faultText, moment, raw, route, safe, short} from './api.js';

/** Pictures at once; others are chosen by name. */
const FIGURES_MAX = 6;
/** Names that count a job's progress, of which a picture tells nothing. */
const COUNTER = /^(global.?)?(step|iter|iteration|epoch)$/i;
/** Curves of which the read-out has a line. */
const READ_MAX = 14;
/** A shorter way of the pointer is a click. */
const DRAG_MIN = 5;

/** Pictures of metrics of the runs that a selector picks, with common controls. */
export class Curves {
  constructor(host, app, sel, metrics) {
    Object.assign(this, {app, sel, metrics, shown: metrics.filter(name => !COUNTER.test(name)).slice(0, FIGURES_MAX), range: null, version: 0});
    const choice = (name, ...options) => el('select', {'aria-label': name, onchange: () => this.refresh(true)}, options.map(([value, text]) => el('option', {value}, text)));
    const box = text => el('input', {type: 'checkbox', 'aria-label': text, onchange: () => this.refresh(true)});
    this.x = choice('horizontal axis', ['', 'by step'], ['time', 'by run time'], ['clock', 'by clock']);
    this.smooth = choice('smoothing', ['', 'raw'], ['5', 'smooth 5'], ['20', 'smooth 20'], ['100', 'smooth 100']);
    this.by = el('input', {'aria-label': 'one curve for equal', placeholder: 'mean by lr', list: 'by-words', onchange: () => this.refresh(true)});
    [this.logX, this.logY] = [box('logarithmic x'), box('logarithmic y')];
    this.reset = el('button', {hidden: true, onclick: () => this.zoom(null)}, 'Whole range');
    this.more = el('select', {'aria-label': 'metrics that are drawn', onchange: () => this.toggle(this.more.value)});
    this.bar = el('div.bar', {}, this.more, this.x, el('label', {}, this.logX, 'log x'), el('label', {}, this.logY, 'log y'), this.smooth, this.by, el('datalist', {id: 'by-words'}), this.reset);
    this.box = el('div.figures');
    host.append(this.bar, this.box);
    this.draw();
  }

  words(metric) {
    const [from, to] = this.range ?? [];
    return {sel: this.sel, y: metric, x: this.x.value, from, to, logx: this.logX.checked, logy: this.logY.checked, smooth: this.smooth.value, by: this.by.value.trim()};
  }

  toggle(metric) {
    this.shown = this.shown.includes(metric) ? this.shown.filter(one => one !== metric) : [...this.shown, metric];
    this.draw();
  }

  draw() {
    const names = this.metrics.map(metric => el('option', {value: metric}, `${this.shown.includes(metric) ? '✓' : '  '} ${metric}`));
    this.more.replaceChildren(el('option', {value: ''}, `${this.shown.length} of ${this.metrics.length} metrics`), ...names);
    this.more.value = '';
    this.figures = this.shown.map(metric => new Figure(this, metric));
    this.box.replaceChildren(...this.figures.map(figure => figure.node));
    if (!this.shown.length) this.box.replaceChildren(el('p.quiet', {}, 'no metric yet: what a program prints as `name value` is one'));
    this.refresh(false);
  }

  /** Metrics that came meanwhile are drawn while there is room. */
  known(metrics) {
    const fresh = metrics.filter(metric => !this.metrics.includes(metric));
    if (!fresh.length) return this.refresh(false);
    this.metrics = [...this.metrics, ...fresh];
    this.shown = [...this.shown, ...fresh.filter(name => !COUNTER.test(name))].slice(0, FIGURES_MAX);
    return this.draw();
  }

  /** Draws all pictures anew; a zoom ends where the axis is another. */
  refresh(isChanged) {
    if (isChanged) this.range = null;
    this.reset.hidden = !this.range;
    this.version++;
    for (const figure of this.figures) figure.refresh();
  }

  zoom(range) {
    this.range = range;
    this.refresh(false);
  }
}

class Figure {
  constructor(curves, metric) {
    Object.assign(this, {curves, metric, data: null, at: null});
    this.line = el('div.at', {hidden: true});
    this.span = el('div.span', {hidden: true});
    this.read = el('output.read', {hidden: true, 'aria-live': 'polite'});
    this.node = el('figure.figure', {tabindex: '0', role: 'group', 'aria-label': `curves of ${metric}: arrows read, + and - zoom, 0 shows all`}, this.line, this.span, this.read);
    const listen = (name, act) => this.node.addEventListener(name, act);
    listen('pointermove', event => this.#move(event));
    listen('pointerleave', () => this.#hide());
    listen('blur', () => this.#hide());
    listen('pointerdown', event => this.#press(event));
    listen('pointerup', event => this.#release(event));
    listen('dblclick', () => this.curves.zoom(null));
    listen('keydown', event => this.#key(event));
  }

  async refresh() {
    const words = {...this.curves.words(this.metric), width: Math.max(300, Math.round(this.node.clientWidth) - 2), v: this.curves.version};
    const isDark = this.curves.app.isDark();
    this.asked = words;
    const image = new Image();
    image.alt = `curves of ${safe(this.metric)}`;
    image.draggable = false;
    image.src = route('/plot.svg', {...words, dark: isDark});
    try {
      await image.decode();
    } catch {
      // A picture does not tell why it is refused: a call does.
      if (this.asked === words) raw('/plot.svg', words).catch(error => this.#put(el('pre.fault', {}, faultText(error))));
      return;
    }
    if (this.asked !== words) return;
    this.#put(image);
    this.data = null;
    if (!this.read.hidden) await this.#load();
    this.#show();
  }

  #put(node) {
    this.picture?.remove();
    this.picture = node;
    this.node.prepend(node);
  }

  async #load() {
    const words = this.asked;
    if (this.data?.words === words || this.loading === words) return;
    this.loading = words;
    try {
      this.data = {words, ...(await ask('/plot.json', words))};
    } catch {
      this.loading = null;
    }
  }

  /** Places on the axis as values, and back. */
  #scale() {
    const {left, right, x: [first, last]} = this.data.area;
    const isLog = this.curves.logX.checked && first > 0;
    const [from, to] = isLog ? [Math.log(first), Math.log(last)] : [first, last];
    return {
      value: px => {
        const at = from + (Math.min(Math.max(px, left), right) - left) / (right - left) * (to - from);
        return isLog ? Math.exp(at) : at;
      },
      px: value => left + ((isLog ? Math.log(value) : value) - from) / (to - from) * (right - left),
    };
  }

  async #move(event) {
    this.at = event.clientX - this.node.getBoundingClientRect().left;
    await this.#load();
    this.#show();
  }

  #hide() {
    this.at = null;
    for (const node of [this.line, this.span, this.read]) node.hidden = true;
  }

  /** The values nearest to the place, the greatest first. */
  #show() {
    if (this.at === null || !this.data?.series?.length) return;
    const {area, series, x: axis} = this.data;
    const scale = this.#scale();
    const wanted = scale.value(this.at);
    const near = series.map(({name, x, y}) => {
      let [low, high] = [0, x.length - 1];
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (x[middle] <= wanted) low = middle;
        else high = middle;
      }
      const at = Math.abs(x[high] - wanted) < Math.abs(x[low] - wanted) ? high : low;
      return {name, x: x[at], y: Number(y[at])};
    }).filter(one => one.x !== undefined).sort((one, other) => other.y - one.y);
    if (!near.length) return;
    const closest = near.reduce((best, one) => (Math.abs(one.x - wanted) < Math.abs(best.x - wanted) ? one : best));
    const place = axis === 'clock' ? moment(closest.x * 1000) : axis === 'time' ? duration(closest.x) : short(closest.x);
    const lines = near.slice(0, READ_MAX).map(one => `${short(one.y).padStart(9)}  ${safe(one.name)}`);
    if (near.length > READ_MAX) lines.push(`and ${near.length - READ_MAX} more`);
    this.read.textContent = [`${safe(axis || 'step')} ${place}`, ...lines].join('\n');
    for (const node of [this.line, this.read]) node.hidden = false;
    const px = scale.px(closest.x);
    this.line.style.setProperty('left', `${px}px`);
    this.line.style.setProperty('top', `${area.top}px`);
    this.line.style.setProperty('height', `${area.bottom - area.top}px`);
    const isRight = px > (area.left + area.right) / 2;
    this.read.style.setProperty('left', isRight ? 'auto' : `${px + 10}px`);
    this.read.style.setProperty('right', isRight ? `${this.node.clientWidth - px + 10}px` : 'auto');
    if (this.from === undefined) return;
    const [first, last] = [Math.max(area.left, Math.min(this.from, this.at)), Math.min(area.right, Math.max(this.from, this.at))];
    this.span.hidden = last - first < DRAG_MIN;
    for (const [name, value] of [['left', first], ['width', last - first], ['top', area.top], ['height', area.bottom - area.top]]) this.span.style.setProperty(name, `${value}px`);
  }

  #press(event) {
    if (event.button || !event.isPrimary) return;
    this.from = event.clientX - this.node.getBoundingClientRect().left;
    this.node.setPointerCapture(event.pointerId);
  }

  #release() {
    const from = this.from;
    this.from = undefined;
    this.span.hidden = true;
    if (from === undefined || this.at === null || !this.data?.area || Math.abs(this.at - from) < DRAG_MIN) return;
    const {value} = this.#scale();
    this.curves.zoom([value(Math.min(from, this.at)), value(Math.max(from, this.at))]);
  }

  async #key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !(step || '+-0'.includes(event.key))) return;
    event.preventDefault();
    await this.#load();
    if (!this.data?.area) return;
    const {left, right, x} = this.data.area;
    this.at ??= (left + right) / 2;
    if (event.key === '0' || event.key === '-') this.curves.zoom(null);
    else if (event.key === '+') {
      const quarter = (right - left) / 4;
      const {value} = this.#scale();
      const range = [value(this.at - quarter), value(this.at + quarter)];
      this.curves.zoom(range[0] < range[1] ? range : x);
    } else this.at = Math.min(right, Math.max(left, this.at + step * (right - left) / (event.shiftKey ? 10 : 100)));
    this.#show();
  }
}
