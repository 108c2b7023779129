// The line at the bottom: what an action is, before Enter does it.

import {ask, duration, el, faultText, later, post, ranges} from './api.js';

/** Where completion begins: behind the last of these. */
const BEGINS = /[^ ,<>=&|(]*$/;

/** A word as a shell takes it. */
export function quoted(word) {
  return /^[\w\-./=:,@+%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The words of a line, with quotes as in a shell; nothing is expanded. */
export function split(line) {
  const words = [];
  let [word, quote] = [null, ''];
  for (let at = 0; at < line.length; at++) {
    const letter = line[at];
    if (quote && letter === quote) quote = '';
    else if (quote === "'") word += letter;
    else if (letter === '\\' && (!quote || '"\\$`'.includes(line[at + 1] ?? ''))) word = (word ?? '') + (line[++at] ?? '');
    else if (quote) word += letter;
    else if (letter === "'" || letter === '"') [word, quote] = [word ?? '', letter];
    else if (letter === ' ' || letter === '\t') {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? '') + letter;
  }
  if (word !== null) words.push(word);
  if (quote) throw new Error(`the quote ${quote} is not closed`);
  return words[0] === 'neroman' ? words.slice(1) : words;
}

/** Proposes words while a text is typed; `before` stands in front of it. */
export function completes(input, list, before) {
  const fill = later(120, async () => {
    const typed = input.value;
    try {
      const {candidates} = await ask('/api/complete', {line: before + typed});
      if (input.value !== typed) return;
      const kept = typed.replace(BEGINS, '');
      list.replaceChildren(...candidates.slice(0, 50).map(one => el('option', {value: kept + one.text}, one.note ?? '')));
    } catch {
      list.replaceChildren();
    }
  });
  input.addEventListener('input', fill);
  input.addEventListener('focus', fill);
}

/** What came of one row of a command's document. */
function outcome(row, isDry) {
  if (row.failed || row.error) return `failed: ${row.failed ?? row.error.what}`;
  if (row.skipped) return `skipped: ${row.skipped}`;
  if (row.outcome) return row.why ? `${row.outcome}: ${row.why}` : row.outcome;
  if (row.run) return isDry ? 'would start' : 'started';
  if (row.what) return row.what;
  if (row.note && row.rule) return row.note;
  if (row.changed === false) return 'unchanged';
  return isDry ? 'would change' : 'done';
}

/** What a command answered, in lines. */
export function summary(answer, isDry) {
  if (answer.ask) return `it asks for something: type it in a terminal\n  ${answer.ask}`;
  if (answer.error) return faultText({...answer.error, message: answer.error.what});
  const lines = [];
  for (const one of answer.documents ?? []) {
    const groups = new Map();
    for (const row of one.experiments ?? one.runs ?? one.rules ?? []) {
      const what = outcome(row, isDry);
      groups.set(what, [...(groups.get(what) ?? []), row]);
    }
    for (const [what, rows] of groups) {
      const ids = rows.map(row => row.id ?? row.experiment).filter(Number.isInteger);
      const changes = rows.length === 1 ? (rows[0].changes ?? []).join(', ') : '';
      lines.push(`${isDry ? 'dry run: ' : ''}${rows.length} ${what}${ids.length ? ` · ${ranges(new Set(ids))}` : ''}${changes ? ` · ${changes}` : ''}`);
    }
    if (one.batch?.left_s) lines.push(`about ${duration(one.batch.left_s)} left`);
    lines.push(...(one.lines ?? []), ...(one.notes ?? []));
  }
  if (answer.text) lines.push(answer.text.trim());
  return lines.join('\n') || (isDry ? 'nothing would change' : 'done');
}

/** The line, its answer and its buttons. */
export class CommandLine {
  constructor(host) {
    this.input = el('input', {id: 'line', list: 'line-words', autocomplete: 'off', spellcheck: 'false', 'aria-label': 'line of neroman', placeholder: 'any line: start all'});
    const words = el('datalist', {id: 'line-words'});
    this.answer = el('output.answer', {id: 'answer', 'aria-live': 'polite'});
    this.form = el('form.line', {onsubmit: event => (event.preventDefault(), this.execute())},
      this.answer,
      el('div.typed', {}, el('label', {for: 'line'}, 'neroman'), this.input, words,
        el('button.primary', {type: 'submit'}, 'Do it ⏎'),
        el('button', {type: 'button', onclick: () => this.copy()}, 'Copy'),
        el('button', {type: 'button', onclick: () => this.leave()}, 'Esc')));
    this.form.addEventListener('keydown', event => {
      if (event.key === 'Escape') this.leave();
    });
    const dry = later(200, () => this.try());
    this.input.addEventListener('input', () => (this.say(''), dry()));
    completes(this.input, words, '');
    host.replaceChildren(this.form);
  }

  /** Where readers alone are served, nothing is typed. */
  lock(isLocked) {
    this.form.hidden = isLocked;
  }

  say(text, isBad = false) {
    this.answer.replaceChildren(text);
    this.answer.classList.toggle('bad', isBad);
    this.form.classList.toggle('open', this.input.value !== '' || text !== '');
  }

  /** Shows these words, what they would do, and waits for Enter; `begun` is typed on. */
  propose(words, begun = '') {
    this.back = document.activeElement;
    this.show(words);
    this.input.value += begun;
    this.input.focus();
    if (!begun) this.try();
  }

  show(words) {
    this.input.value = words.map(quoted).join(' ');
    this.say('');
  }

  async #send(isDry) {
    const line = this.input.value;
    if (!line.trim()) return;
    try {
      const answer = await post('/do', {words: split(line), dry_run: isDry});
      // An answer that comes late is none of the line that stands there by now.
      if (isDry && (this.input.value !== line || this.isBusy)) return;
      if (isDry && answer.documents.some(one => one.dry === false)) return;
      const isBad = Boolean(answer.error || answer.ask || answer.exit_code > 1);
      if (!isDry && !isBad) this.input.value = '';
      this.say(summary(answer, isDry), isBad);
    } catch (error) {
      if (isDry && this.input.value !== line) return;
      this.say(faultText(error), true);
    }
  }

  try() {
    return this.#send(true);
  }

  async execute() {
    if (this.isBusy) return;
    this.isBusy = true;
    await this.#send(false);
    this.isBusy = false;
    if (!this.input.value) this.leave(false);
  }

  async copy() {
    const text = `neroman ${this.input.value}`;
    try {
      await navigator.clipboard.writeText(text);
      this.say('copied');
    } catch {
      this.input.select();
      this.say('this browser does not let pages copy: Ctrl-C does it');
    }
  }

  leave(isSilent = true) {
    this.input.value = '';
    if (isSilent) this.say('');
    this.input.blur();
    this.back?.focus();
  }
}
