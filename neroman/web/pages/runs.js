// The page of runs: counts, filter, groups, the table, and actions on what is marked.

import {Live, ask, el, faultText, later, numbers, ranges, short, stateMark} from './api.js';
import {chooser} from './chooser.js';
import {completes} from './line.js';
import {Table} from './table.js';

/** Key, verb, and the name of its button. */
export const ACTIONS = [['a', 'abort', 'Abort'], ['r', 'restart', 'Restart'], ['s', 'start', 'Start'], ['p', 'pause', 'Pause'], ['P', 'resume', 'Resume'], ['n', 'note', 'Note'], ['t', 'tag', 'Tag'], ['x', 'rm', 'Remove']];
/** Rows at first. */
const COUNT = 60;

/** Shows the page; what is returned has its keys and its end. */
export const runs = (main, app) => new Runs(main, app);

class Runs {
  constructor(main, app) {
    this.app = app;
    const {sel = '', sort = '', cols = '', marks = '', base = '', by = ''} = app.words();
    Object.assign(this, {sel, sort, by, base, cols: cols ? cols.split('\n') : [], isLocked: false, asked: {offset: 0, count: COUNT}});
    this.counts = el('div.counts');
    this.news = el('div.news', {'aria-live': 'polite'});
    const words = el('datalist', {id: 'filter-words'});
    this.filter = el('input', {id: 'filter', type: 'search', value: sel, list: 'filter-words', autocomplete: 'off', spellcheck: 'false', 'aria-label': 'filter', 'aria-describedby': 'fault', placeholder: 'filter: running, 12-20, loss < 0.2 && lr > 0.01'});
    this.fault = el('pre.fault', {id: 'fault', role: 'alert', hidden: true});
    completes(this.filter, words, 'status ');
    const follow = later(150, () => this.select(this.filter.value));
    this.filter.addEventListener('input', follow);
    this.filter.addEventListener('keydown', event => {
      if (event.key === 'Enter') this.select(this.filter.value, true);
      if (event.key === 'Enter' || event.key === 'Escape') this.table.table.focus();
    });
    const groupWords = el('datalist', {id: 'group-words'});
    this.group = el('input.group', {id: 'group', value: by, list: 'group-words', autocomplete: 'off', 'aria-label': 'group by', placeholder: 'group by lr,layers'});
    this.group.addEventListener('change', () => this.groupBy(this.group.value.trim()));
    this.group.addEventListener('focus', async () => {
      const {parameters} = await ask('/api/columns', {sel: this.sel});
      groupWords.replaceChildren(...parameters.slice(0, 100).map(name => el('option', {value: name})));
    }, {once: true});
    this.actions = el('div.actions', {role: 'toolbar', 'aria-label': 'what is marked'});
    const columns = el('button', {onclick: () => this.choose()}, 'Columns');
    const tools = el('div.tools', {}, this.filter, words, this.group, groupWords, columns, this.actions);
    this.place = el('div.place');
    this.groups = el('div.scroll.groups', {hidden: true});
    main.replaceChildren(this.counts, this.news, tools, this.fault, this.place, this.groups);
    this.table = new Table(this.place, {
      wants: (offset, count) => this.watch(offset, count),
      range: (offset, count) => this.range(offset, count),
      marked: () => this.changed(),
      open: row => app.go({page: 'run', id: row.id}),
      sort: expression => this.order(expression),
      edit: (row, field) => this.edit(row, field),
      isLocked: () => this.isLocked,
    });
    this.table.sort = sort;
    this.table.marks = numbers(marks);
    this.live = new Live((reply, words) => this.take(reply, words), error => this.refused(error));
    this.watch(0, COUNT);
    this.tell();
    if (by) this.groupBy(by);
  }

  close() {
    this.live.close();
    this.table.close();
  }

  /** Asks for other rows. */
  watch(offset, count) {
    this.asked = {offset, count};
    // Columns that tell most are those of the first rows; they stay while one scrolls.
    const shown = offset ? this.table.columns.map(column => column.name) : [];
    const columns = this.cols.length ? this.cols : shown;
    this.live.ask({sel: this.sel, sort: this.sort, offset, count, columns});
  }

  take(reply, words) {
    if (words.sel !== undefined && words.sel !== this.sel) return;
    this.app.online(true, reply.version);
    this.isLocked = reply.read_only;
    this.app.line.lock(reply.read_only);
    this.fault.hidden = true;
    this.filter.removeAttribute('aria-invalid');
    this.table.take(reply);
    this.drawCounts(reply);
    this.drawNews(reply);
    this.table.empty.textContent = this.sel ? 'nothing is picked by this filter' : 'nothing is added yet: type `add PATH` below';
    this.table.empty.hidden = reply.totals.experiments > 0;
    this.tell();
    this.keepBase();
    if (this.by) this.drawGroupsSoon();
  }

  refused(error) {
    if (!error) return this.app.online(false);
    this.fault.replaceChildren(faultText(error));
    this.fault.hidden = false;
    this.filter.setAttribute('aria-invalid', 'true');
  }

  drawCounts({totals, batches}) {
    const states = totals.states.map(({state, count}) => el('button.count', {'aria-pressed': String(this.sel === state), title: `filter: ${state}`, onclick: () => this.pick(this.sel === state ? '' : state)}, stateMark(state, `${count} ${state}`)));
    const all = el('strong', {}, `${totals.experiments} experiment${totals.experiments === 1 ? '' : 's'}`);
    const last = (batches ?? []).slice(-2).map(batch => el('span.batch', {}, el('progress', {max: batch.runs, value: batch.ended, 'aria-label': `batch ${batch.batch}`}), batch.text ?? `${batch.ended} of ${batch.runs} done`));
    this.counts.replaceChildren(all, ...states, ...last);
  }

  /** What needs a person, and why runs wait: a line each, which picks its experiments. */
  drawNews({totals, notes, columns}) {
    const line = kind => ({state, text, count, ids}) => el('p', {},
      el('button.link', {onclick: () => this.pick(ids), title: `filter: ${ids}`}, state ? stateMark(state, `${count} ${state}`) : `${count} ${kind}`), ` ${text}`);
    const rows = [
      ...totals.needs.map(line('need you')),
      ...totals.held.map(text => el('p', {}, text)),
      ...totals.warnings.map(line('warned')),
      ...totals.waits.map(line('waiting')),
      ...totals.hints.map(line('hint')),
      ...(notes ?? []).map(text => el('p', {}, text)),
      columns.length > this.table.columns.length && el('p', {}, `${columns.length - this.table.columns.length} more columns: choose those that matter`),
    ].filter(Boolean);
    const more = rows.length > 3 && el('details', {}, el('summary', {}, `${rows.length - 3} more`), rows.splice(3));
    if (more) more.open = this.news.querySelector('details')?.open ?? false;
    this.news.replaceChildren(...rows, ...(more ? [more] : []));
  }

  /** Buttons for what is marked, else for the row of the cursor. */
  tell() {
    const {marks} = this.table;
    const isBare = !marks.size && !this.table.current();
    const buttons = this.isLocked
      ? [el('span.quiet', {}, 'read-only')]
      : ACTIONS.map(([key, verb, name]) => el('button', {disabled: isBare, 'aria-keyshortcuts': key, onclick: () => this.act(verb)}, name));
    this.actions.replaceChildren(
      el('span.marks', {}, marks.size ? `${marks.size} marked` : this.table.current() ? `row ${this.table.current().id}` : ''),
      ...buttons,
      el('button', {disabled: marks.size < 2, onclick: () => this.compare()}, 'Compare'),
      el('button', {disabled: isBare, 'aria-pressed': String(Boolean(this.base)), onclick: () => this.setBase()}, this.base ? 'No baseline' : 'Baseline'),
      el('button', {disabled: !marks.size, onclick: () => this.table.unmark()}, 'Unmark'));
  }

  act(verb) {
    const targets = this.table.targets();
    if (!targets || this.isLocked) return undefined;
    if (verb === 'note' || verb === 'tag') {
      const row = this.table.current();
      if (!this.table.marks.size && row && this.edit(row, verb)) return undefined;
      return this.app.line.propose([verb, targets], verb === 'tag' ? ' +' : ' ');
    }
    return this.app.line.propose([verb, targets]);
  }

  /** Note or tags in their place; the line that Enter does stands below meanwhile. */
  edit(row, field) {
    const isTags = field === 'tag';
    const before = isTags ? row.tags.join(' ') : row.note ?? '';
    const input = el('input', {value: before, 'aria-label': `${isTags ? 'tags' : 'note'} of ${row.id}`, spellcheck: 'false'});
    const words = () => {
      const text = input.value.trim();
      if (!isTags) return ['note', String(row.id), ...(text.startsWith('-') ? ['--'] : []), text];
      const tags = input.value.split(/[\s,]+/).filter(Boolean);
      const gone = row.tags.filter(tag => !tags.includes(tag)).map(tag => `-${tag}`);
      return ['tag', String(row.id), ...tags.filter(tag => !row.tags.includes(tag)).map(tag => `+${tag}`), ...gone];
    };
    const isSame = () => input.value.trim() === before;
    const end = () => this.table.edited();
    input.addEventListener('input', () => this.app.line.show(isSame() ? [] : words()));
    input.addEventListener('keydown', async event => {
      event.stopPropagation();
      if (event.key === 'Tab' && !event.shiftKey) {
        event.preventDefault();
        end();
        this.edit({...row}, isTags ? 'note' : 'tag');
      } else if (event.key === 'Escape') {
        this.app.line.leave();
        end();
      } else if (event.key === 'Enter') {
        if (!isSame()) {
          this.app.line.back = null;
          this.app.line.show(words());
          await this.app.line.execute();
        }
        end();
      }
    });
    const isThere = this.table.edit(row, el('span.editor', {}, input));
    if (isThere) input.select();
    return isThere;
  }

  /** The numbers of rows that may be elsewhere. */
  async range(offset, count) {
    const {experiments} = await ask('/api/window', {sel: this.sel, sort: this.sort, offset, count, columns: ['id']});
    return experiments.map(row => row.id);
  }

  select(sel, isFinal = false) {
    if (sel !== this.sel) {
      this.sel = sel;
      this.table.reset();
      this.watch(0, COUNT);
      if (this.by) this.drawGroupsSoon();
    }
    this.changed(isFinal);
  }

  pick(sel) {
    this.filter.value = sel;
    this.select(sel, true);
  }

  order(expression) {
    this.sort = this.table.sort = expression;
    this.table.box.scrollTop = 0;
    this.watch(0, this.asked.count);
    this.changed();
  }

  async choose() {
    const shown = this.cols.length ? this.cols : this.table.columns.map(column => column.name);
    const chosen = await chooser(this.sel, shown);
    if (!chosen) return;
    this.cols = chosen;
    this.watch(this.asked.offset, this.asked.count);
    this.changed();
  }

  compare() {
    if (this.table.marks.size > 1) this.app.go({page: 'compare', sel: ranges(this.table.marks), base: this.base || undefined});
  }

  setBase() {
    this.base = this.base ? '' : String(this.table.current()?.id ?? '');
    if (!this.base) this.table.base = null;
    this.changed();
    this.keepBase();
    this.table.draw();
  }

  /** The baseline with its present values, in the columns that are shown. */
  async keepBase() {
    if (!this.base) return;
    const there = [...this.table.rows.values()].find(row => String(row.id) === this.base);
    const columns = this.table.columns.map(column => column.name);
    const base = there ?? (await ask('/api/window', {sel: this.base, count: 1, columns}).catch(() => null))?.experiments[0];
    if (base && String(base.id) === this.base && base.cells.length >= this.table.columns.length) this.table.base = base;
    this.table.draw();
  }

  groupBy(by) {
    this.by = this.group.value = by;
    [this.groups.hidden, this.place.hidden] = [!by, Boolean(by)];
    if (by) this.drawGroups();
    else this.table.draw();
    this.changed();
  }

  drawGroupsSoon = later(1000, () => this.by && this.drawGroups());

  async drawGroups() {
    try {
      const {groups} = await ask('/api/results', {w: [this.sel || 'all', '--by', this.by]});
        const metrics = [...new Set(groups.flatMap(group => Object.keys(group.metrics)))].slice(0, 12);
      const spread = one => one && [short(one.mean), one.deviation !== null && el('span.quiet', {}, ` ± ${short(Number(one.deviation.toPrecision(2)))}`)];
      this.groups.replaceChildren(el('table.rows', {'aria-label': 'groups'},
        el('thead', {}, el('tr', {}, this.by.split(',').map(name => el('th', {scope: 'col'}, name.trim())), ['n', 'finished', ...metrics].map(name => el('th.number', {scope: 'col'}, name)), el('th', {scope: 'col'}, 'experiments'))),
        el('tbody', {}, groups.map(group => el('tr', {},
          Object.values(group.parameters).map(value => el('td', {}, String(value ?? ''))),
          el('td.number', {}, String(group.n)), el('td.number', {}, String(group.finished)),
          metrics.map(name => el('td.number', {}, spread(group.metrics[name]))),
          el('td', {}, el('button.link', {onclick: () => (this.groupBy(''), this.pick(ranges(new Set(group.ids))))}, ranges(new Set(group.ids)))))))));
    } catch (error) {
      this.groups.replaceChildren(el('pre.fault', {role: 'alert'}, faultText(error)));
    }
  }

  /** Keeps what is shown in the address. */
  changed() {
    const {marks} = this.table;
    this.app.keep({sel: this.sel, sort: this.sort, cols: this.cols.join('\n'), marks: ranges(marks), base: this.base, by: this.by});
    this.app.marks = ranges(marks);
    this.tell();
  }

  get keys() {
    return [
      ['/', 'filter', () => this.filter.focus()],
      ['g', 'group', () => this.group.focus()],
      ['c', 'choose columns', () => this.choose()],
      ['i', 'turn the order round', () => this.sort && this.order(this.sort.startsWith('-') ? this.sort.slice(1) : `-${this.sort}`)],
      ...ACTIONS.map(([key, verb, name]) => [key, `${name.toLowerCase()} what is marked, else the row`, () => this.act(verb)]),
      ['b', 'keep the row on top as baseline', () => this.setBase()],
      ['d', 'compare what is marked', () => this.compare()],
      ['u', 'take all marks away', () => this.table.unmark()],
      ['.', 'go into the table: ↑ ↓ j k PgUp PgDn Home End move, Space marks, Shift marks a range, Enter opens', () => this.table.table.focus()],
    ];
  }
}
