// The table of experiments: the rows that are seen, of a window over all.

import {el, ranges, stateMark} from './api.js';

/** Height of a row in pixels, as in the style sheet. */
const ROW = 27;
/** Rows drawn beyond those that are seen. */
const BEYOND = 12;
/** The most rows that a range of marks takes. */
const RANGE_MAX = 5000;
/** Columns that are drawn; the chooser has the others. */
const COLUMNS_MAX = 60;

/** Tags and note, with a button to change them. */
function remarks(row, edit) {
  return el('td.remarks', {},
    row.tags.map(tag => el('span.tag', {}, tag)),
    el('span.note', {title: row.note}, row.note ?? ''),
    edit && el('button.edit', {tabindex: '-1', 'aria-label': `note and tags of ${row.id}`, onclick: event => (event.stopPropagation(), edit(row, 'note'))}, '✎'));
}

/** A table in a scrolled box. `does` has what the page does about it. */
export class Table {
  constructor(host, does) {
    Object.assign(this, {host, does, columns: [], rows: new Map(), total: 0, offset: 0, cursor: 0, id: null, marks: new Set(), anchor: null, sort: '', base: null, widths: new Map(), editing: false});
    this.head = el('thead');
    this.body = el('tbody');
    this.above = el('div', {'aria-hidden': 'true'});
    this.below = el('div', {'aria-hidden': 'true'});
    this.table = el('table.rows', {role: 'grid', tabindex: '0', 'aria-label': 'experiments', 'aria-multiselectable': 'true'}, this.head, this.body);
    this.empty = el('p.empty', {hidden: true});
    this.box = el('div.scroll', {}, this.above, this.table, this.below, this.empty);
    host.replaceChildren(this.box);
    let frame;
    const soon = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => this.draw());
    };
    this.box.addEventListener('scroll', soon);
    this.watch = new ResizeObserver(soon);
    this.watch.observe(this.box);
    this.table.addEventListener('keydown', event => this.#key(event));
    this.body.addEventListener('click', event => this.#click(event));
  }

  close() {
    this.watch.disconnect();
  }

  /** Takes a window. */
  take(reply) {
    const names = columns => columns.map(column => column.name).join('\n');
    const columns = reply.columns.slice(0, COLUMNS_MAX);
    if (names(columns) !== names(this.columns)) {
      this.widths.clear();
      this.base = null;
    }
    Object.assign(this, {columns, total: reply.totals.experiments, offset: reply.offset});
    this.rows = new Map(reply.experiments.map((row, at) => [reply.offset + at, row]));
    const place = [...this.rows].find(([, row]) => row.id === this.id)?.[0];
    this.cursor = Math.min(place ?? this.cursor, Math.max(0, this.total - 1));
    this.id = this.rows.get(this.cursor)?.id ?? this.id;
    this.draw();
  }

  /** Goes back to the first row, for another selection. */
  reset() {
    Object.assign(this, {cursor: 0, id: null, anchor: null});
    this.box.scrollTop = 0;
  }

  current() {
    return this.rows.get(this.cursor);
  }

  /** What an action is for: the marked experiments, else that of the cursor. */
  targets() {
    if (this.marks.size) return ranges(this.marks);
    return this.current() ? String(this.current().id) : '';
  }

  draw() {
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed && this.body.contains(selection.anchorNode);
    if (this.editing || isSelecting) return;
    const seen = Math.ceil(this.box.clientHeight / ROW);
    const top = Math.floor(this.box.scrollTop / ROW);
    const first = Math.max(0, Math.min(top, this.total) - BEYOND);
    const end = Math.min(this.total, top + seen + BEYOND);
    this.#drawHead();
    const best = this.#best();
    const rows = [];
    for (let place = first; place < end; place++) rows.push(this.#row(place, this.rows.get(place), best));
    this.body.replaceChildren(...rows);
    this.above.style.setProperty('height', `${first * ROW}px`);
    this.below.style.setProperty('height', `${(this.total - end) * ROW}px`);
    this.table.setAttribute('aria-rowcount', this.total + 1);
    if (this.total) this.table.setAttribute('aria-activedescendant', `row-${this.cursor}`);
    else this.table.removeAttribute('aria-activedescendant');
    this.#keepWidths();
    const isThere = this.rows.has(Math.min(top, this.total - 1)) && this.rows.has(Math.min(top + seen, this.total) - 1);
    if (this.total && !isThere) this.does.wants(Math.max(0, top - seen), seen * 3);
  }

  /** Columns only grow while one scrolls, so that nothing jumps. */
  #keepWidths() {
    if (!this.body.rows.length) return;
    for (const cell of this.head.rows[0]?.cells ?? []) {
      const name = cell.dataset.column;
      if (!name) continue;
      this.widths.set(name, Math.max(this.widths.get(name) ?? 0, cell.getBoundingClientRect().width));
    }
  }

  #drawHead() {
    const focused = document.activeElement?.closest?.('th')?.dataset.column;
    const cells = this.columns.map(column => {
      const [isUp, isDown] = [this.sort === column.expression, this.sort === `-${column.expression}`];
      const order = column.expression && (isUp ? 'ascending' : isDown ? 'descending' : 'none');
      const next = isUp ? `-${column.expression}` : isDown ? '' : column.expression;
      const text = [column.heading, el('span.order', {'aria-hidden': 'true'}, isUp ? ' ▲' : isDown ? ' ▼' : '')];
      const inner = column.expression ? el('button', {title: `sort by ${column.name}`, onclick: () => this.does.sort(next)}, text) : text;
      const cell = el(column.number ? 'th.number' : 'th', {scope: 'col', 'aria-sort': order, 'data-column': column.name}, inner);
      cell.style.setProperty('min-width', `${this.widths.get(column.name) ?? 0}px`);
      return cell;
    });
    const rows = [el('tr', {'aria-rowindex': 1}, el('th.mark', {}, el('span.hidden', {}, 'marked')), cells, el('th', {scope: 'col'}, 'tags, note'))];
    if (this.base) rows.push(this.#row(null, this.base, new Map()));
    this.head.replaceChildren(...rows);
    if (focused) this.head.querySelector(`th[data-column="${CSS.escape(focused)}"] button`)?.focus();
  }

  /** The best row of each metric: of all where all are there, else the first of such an order. */
  #best() {
    const best = new Map();
    for (const [at, {better, name, expression}] of this.columns.entries()) {
      if (!better) continue;
      const value = row => Number(row.metrics[name]?.last ?? NaN);
      if (this.total > 1 && this.rows.size === this.total) {
        const sign = better === 'min' ? 1 : -1;
        const known = [...this.rows.values()].filter(row => !Number.isNaN(value(row)));
        known.sort((one, other) => sign * (value(one) - value(other)));
        if (known.length > 1) best.set(at, known[0].id);
      } else if (this.sort === (better === 'min' ? expression : `-${expression}`) && this.rows.has(0)) best.set(at, this.rows.get(0).id);
    }
    return best;
  }

  #row(place, row, best) {
    const isBase = place === null;
    const id = isBase ? 'baseline' : `row-${place}`;
    if (!row) return el('tr', {id, 'data-place': place, 'aria-rowindex': place + 2}, el('td'), el('td', {colspan: this.columns.length + 1}, '…'));
    const isMarked = this.marks.has(row.id);
    const names = [isMarked && 'marked', isBase && 'baseline', !isBase && place === this.cursor && 'cursor'].filter(Boolean);
    const box = isBase
      ? el('span', {title: 'baseline'}, '⚑')
      : el('input', {type: 'checkbox', checked: isMarked, tabindex: '-1', 'aria-label': `mark ${row.id}`});
    const cells = this.columns.map((column, at) => this.#cell(column, row, row.cells[at], best.get(at) === row.id));
    return el('tr', {id, class: names.join(' ') || null, 'data-place': place, 'aria-rowindex': isBase ? null : place + 2, 'aria-selected': isBase ? null : String(isMarked)},
      el('td.mark', {}, box), cells, remarks(row, !this.does.isLocked() && this.does.edit));
  }

  #cell(column, row, text, isBest) {
    const kind = `td${column.number ? '.number' : ''}${isBest ? '.best' : ''}`;
    if (column.name === 'name') return el('td.name', {title: text}, el('a', {href: `?page=run&id=${row.id}`, tabindex: '-1'}, text));
    if (column.name === 'state') return el(kind, {}, stateMark(row.state, text));
    if (column.name === 'progress' && row.state === 'running' && row.progress !== null) {
      const cell = el(`${kind}.share`, {}, text);
      cell.style.setProperty('--share', `${Math.round(row.progress * 100)}%`);
      return cell;
    }
    return el(kind, {title: text.length > 24 ? text : null}, isBest && el('span.star', {title: `best ${column.name}`}, '★ '), text);
  }

  /** Marks a row or takes its mark away; with a range from the row that was marked last. */
  async mark(place, isRange) {
    const row = this.rows.get(place);
    if (!row) return;
    if (isRange && this.anchor !== null) {
      const [first, last] = [Math.min(place, this.anchor), Math.max(place, this.anchor)];
      const count = Math.min(last - first + 1, RANGE_MAX);
      const there = Array.from({length: count}, (_, at) => this.rows.get(first + at)?.id);
      const ids = there.includes(undefined) ? await this.does.range(first, count) : there;
      ids.forEach(id => this.marks.add(id));
    } else {
      if (!this.marks.delete(row.id)) this.marks.add(row.id);
      this.anchor = place;
    }
    this.does.marked();
    this.draw();
  }

  unmark() {
    this.marks.clear();
    this.anchor = null;
    this.does.marked();
    this.draw();
  }

  /** Puts the cursor on a row, where it can be seen. */
  go(place, marks = false) {
    const before = this.cursor;
    this.cursor = Math.max(0, Math.min(place, this.total - 1));
    this.id = this.rows.get(this.cursor)?.id ?? null;
    const head = this.head.getBoundingClientRect().height;
    const [top, height] = [this.cursor * ROW, this.box.clientHeight - head];
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + height) this.box.scrollTop = top + ROW - height;
    if (marks) {
      if (this.anchor === null) this.anchor = before;
      this.mark(this.cursor, true);
    }
    this.draw();
  }

  #key(event) {
    if (event.target !== this.table || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
    const steps = {ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total};
    if (event.key in steps) this.go(this.cursor + steps[event.key], event.shiftKey);
    else if (event.key === ' ') this.mark(this.cursor, event.shiftKey);
    else if (event.key === 'Enter' && this.current()) this.does.open(this.current());
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #click(event) {
    const place = Number(event.target.closest('tr')?.dataset.place);
    if (event.target.closest('a, button, .editor') || !this.rows.has(place)) return;
    const isBox = event.target.matches('input[type=checkbox]');
    if (event.shiftKey) document.getSelection().removeAllRanges();
    this.cursor = place;
    this.id = this.rows.get(place).id;
    if (isBox || event.target.closest('.mark') || event.ctrlKey || event.metaKey || event.shiftKey) this.mark(place, event.shiftKey);
    else {
      this.anchor = place;
      this.draw();
    }
    if (!this.editing) this.table.focus({preventScroll: true});
  }

  /** Puts an editor into the last cell of a row. */
  edit(row, editor) {
    const place = [...this.rows].find(([, one]) => one.id === row.id)?.[0];
    const cell = this.body.querySelector(`#row-${place} .remarks`);
    if (!cell) return false;
    this.editing = true;
    cell.replaceChildren(editor);
    cell.scrollIntoView({block: 'nearest', inline: 'nearest'});
    return true;
  }

  edited() {
    this.editing = false;
    this.table.focus({preventScroll: true});
    this.draw();
  }
}
