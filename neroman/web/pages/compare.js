// The page that compares: what differs, curves over one another, any number over any other.

import {LISTED_MAX, Live, ask, duration, el, faultText, later, more, ranges, short, stateMark} from './api.js';
import {Curves} from './curves.js';
import {scatter} from './scatter.js';

/** Runs that have a column. */
const RUNS_MAX = 60;

export const compare = (main, app) => new Compare(main, app);

/** Of each experiment the value of every parameter and metric, by its name. */
function numbersOf(run) {
  const metrics = Object.entries(run.metrics).map(([name, one]) => [`metric ${name}`, Number(one.last)]);
  const parameters = Object.entries(run.parameters).map(([name, value]) => [`parameter ${name}`, typeof value === 'boolean' || value === null || value === '' ? NaN : Number(value)]);
  return new Map([...metrics, ['fact runtime', run.runtime_s ?? NaN], ...parameters]);
}

class Compare {
  constructor(main, app) {
    const {sel = '', base = '', x = '', y = ''} = app.words();
    Object.assign(this, {app, sel, base, x, y});
    this.input = el('input', {type: 'search', value: sel, 'aria-label': 'experiments to compare', placeholder: 'experiments to compare: 1,4,7 or finished', spellcheck: 'false', onchange: () => app.go({page: 'compare', sel: this.input.value.trim(), base})});
    this.only = el('input', {type: 'checkbox', checked: true, 'aria-label': 'only what differs', onchange: () => this.drawTable()});
    this.place = el('div.scroll.compared', {hidden: true});
    this.curvesCard = el('section.card', {hidden: true}, el('h2', {}, 'Curves'));
    this.scatterCard = el('section.card', {hidden: true});
    this.codeCard = el('section.card', {hidden: true});
    this.news = el('div.news');
    main.replaceChildren(el('div.tools', {}, this.input, el('label', {}, this.only, ' only what differs')), this.news, this.place, this.curvesCard, this.scatterCard, this.codeCard);
    app.onTheme = () => this.curves?.refresh(false);
    this.curvesSoon = later(500, () => this.drawCurves());
    this.live = new Live(reply => this.take(reply), error => (error ? this.news.replaceChildren(el('pre.fault', {role: 'alert'}, faultText(error))) : app.online(false)));
    if (sel) this.live.ask({sel, offset: 0, count: RUNS_MAX, columns: ['id']});
    else this.news.replaceChildren(el('p.empty', {}, 'Mark runs on the first page and press d, or type some above.'));
  }

  keys = [['/', 'which experiments', () => this.input.focus()], ['o', 'only what differs', () => this.only.click()]];

  close() {
    this.live.close();
  }

  take({experiments, totals, read_only, version, notes}) {
    this.app.online(true, version);
    this.app.line.lock(read_only);
    const left = totals.experiments - experiments.length;
    this.news.replaceChildren(...[...(notes ?? []), left > 0 && `${left} more are not shown`, !experiments.length && 'nothing is picked'].filter(Boolean).map(text => el('p', {}, text)));
    const isNew = !this.runs;
    this.runs = [...experiments].sort((one, other) => (String(other.id) === this.base) - (String(one.id) === this.base));
    for (const part of [this.place, this.curvesCard, this.scatterCard]) part.hidden = !experiments.length;
    this.drawTable();
    this.drawScatter();
    if (isNew) this.drawCurves();
    else this.curvesSoon();
    if (isNew && experiments.length === 2) this.drawCode();
  }

  drawTable() {
    const {runs} = this;
    const names = part => [...new Set(runs.flatMap(run => Object.keys(run[part])))].sort();
    const text = value => (value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value));
    const row = (name, values, draw = values.map(text)) => {
      const isSame = values.every(value => text(value) === text(values[0]));
      if (isSame && this.only.checked && runs.length > 1) return null;
      return el(isSame ? 'tr' : 'tr.differs', {}, el('th', {scope: 'row', title: name}, name), draw.map((value, at) => el(text(values[at]) === text(values[0]) ? 'td.number.same' : 'td.number', {title: text(values[at])}, value)));
    };
    const last = (run, name) => run.metrics[name]?.last;
    const gap = (run, name) => {
      const [own, base] = [Number(last(run, name)), Number(last(runs[0], name))];
      return run !== runs[0] && Number.isFinite(own - base) && own !== base && el('span.quiet', {}, ` ${own > base ? '+' : '−'}${short(Math.abs(Number((own - base).toPrecision(3))))}`);
    };
    const part = (title, all) => {
      const rows = all.filter(Boolean);
      return rows.length > 0 && [el('tr.part', {}, el('th', {scope: 'rowgroup', colspan: runs.length + 1}, title + more(rows.length))), rows.slice(0, LISTED_MAX)];
    };
    const {scrollLeft, scrollTop} = this.place;
    this.place.replaceChildren(el('table.rows', {'aria-label': 'what differs'},
      el('thead', {}, el('tr', {}, el('th', {}, el('span.hidden', {}, 'name')), runs.map(run => el('th.number', {scope: 'col', title: run.name}, el('a', {href: `?page=run&id=${run.id}`}, `${run.id}`), String(run.id) === this.base && ' ⚑', ' ', stateMark(run.state))))),
      el('tbody', {},
        part('parameters', names('parameters').map(name => row(name, runs.map(run => run.parameters[name])))),
        part('metrics', names('metrics').map(name => row(name, runs.map(run => last(run, name)), runs.map(run => [text(short(last(run, name) ?? '')), gap(run, name)])))),
        part('facts', [...['name', 'collection', 'node', 'reason', 'note'].map(name => row(name, runs.map(run => run[name]))), row('runtime', runs.map(run => run.runtime_s), runs.map(run => duration(run.runtime_s))), row('tags', runs.map(run => run.tags.join(' ')))]))));
    Object.assign(this.place, {scrollLeft, scrollTop});
  }

  drawCurves() {
    const metrics = [...new Set(this.runs.flatMap(run => Object.keys(run.metrics)))];
    const varying = metrics.filter(name => this.runs.some(run => run.metrics[name]?.count > 1));
    if (this.curves) this.curves.known(varying);
    else if (varying.length) this.curves = new Curves(this.curvesCard, this.app, ranges(new Set(this.runs.map(run => run.id))), varying);
    this.curvesCard.hidden = !this.curves;
  }

  drawScatter() {
    const all = this.runs.map(run => [run, numbersOf(run)]);
    const differs = name => new Set(all.map(([, numbers]) => numbers.get(name)).filter(value => !Number.isNaN(value))).size > 1;
    const names = [...new Set(all.flatMap(([, numbers]) => [...numbers.keys()]))].filter(differs);
    this.scatterCard.hidden = names.length < 2;
    if (names.length < 2) return;
    if (!names.includes(this.x)) this.x = names.at(-1);
    if (!names.includes(this.y)) this.y = names[0];
    if (!this.axes || this.axes.names !== names.join('\n')) {
      const box = label => el('input', {type: 'checkbox', 'aria-label': label, onchange: () => this.drawScatter()});
      const choice = (label, name) => el('select', {'aria-label': label, onchange: event => ((this[name] = event.target.value), this.app.keep({[name]: this[name]}), this.drawScatter())}, names.map(one => el('option', {value: one, selected: one === this[name]}, one)));
      this.axes = {names: names.join('\n'), x: box('logarithmic horizontal axis'), y: box('logarithmic vertical axis'), place: el('div')};
      this.scatterCard.replaceChildren(el('h2', {}, 'Any two numbers'), el('div.bar', {}, choice('vertical axis', 'y'), ' over ', choice('horizontal axis', 'x'), el('label', {}, this.axes.x, 'log x'), el('label', {}, this.axes.y, 'log y')), this.axes.place);
    }
    const points = all.map(([run, numbers]) => ({x: numbers.get(this.x), y: numbers.get(this.y), name: `${run.id} ${run.name}`, open: () => this.app.go({page: 'run', id: run.id})}));
    this.axes.place.replaceChildren(scatter(points, {x: this.x, y: this.y}, {x: this.axes.x.checked, y: this.axes.y.checked}));
  }

  /** Of two runs also how their code differs. */
  async drawCode() {
    const {code} = await ask('/api/diff', {w: this.runs.map(run => String(run.id))}).catch(() => ({code: []}));
    this.codeCard.hidden = !code.length;
    const parts = code.map(file => [el('p', {}, el('strong', {}, file.path), ` ${file.change} ${file.why ?? ''}`), file.diff && el('pre', {}, file.diff)]);
    this.codeCard.replaceChildren(el('h2', {}, 'Code'), ...parts.flat().filter(Boolean));
  }
}
