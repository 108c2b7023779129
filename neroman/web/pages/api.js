// Requests to the server, the live stream, and elements made of text nodes.

/** Names that are listed at once: a job may print thousands. */
export const LISTED_MAX = 200;
export const more = count => count > LISTED_MAX ? ` and ${count - LISTED_MAX} more` : '';
/** Characters that could reorder or hide the text around them. */
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The same text with characters that act written as `\u{202e}`. */
export function safe(text) {
  return String(text).replace(ACTING, c => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** An element: `el('a.quiet', {href: '?page=nodes', onclick: act}, 'Nodes')`. */
export function el(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split('.');
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') node[name] = value;
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false || child === '') continue;
    node.append(child instanceof Node ? child : safe(child));
  }
  return node;
}

/** What the server or the daemon refused, with a hint and places where there are some. */
export class Fault extends Error {
  constructor(error) {
    super(error.what);
    this.causes = error.causes ?? [];
    this.hint = error.hint;
    this.report = error.report;
  }
}

/** The lines that tell people of an error. */
export function faultText(error) {
  const causes = (error.causes ?? []).filter(cause => !error.message.includes(cause));
  const lines = [error.report, `error: ${[error.message, ...causes].join(': ')}`, error.hint && `hint: ${error.hint}`];
  return lines.filter(Boolean).join('\n');
}

/** The address of a route with these words; a list repeats its name, empty words are left out. */
export function route(path, words = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null && one !== '' && one !== false) params.append(name, one === true ? '1' : one);
    }
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/** A response, once it is known to be good. */
async function good(request) {
  let response;
  try {
    response = await request;
  } catch {
    throw new Fault({what: '`neroman web` does not answer any more', hint: 'start it again and open the address that it prints'});
  }
  if (response.ok) return response;
  const text = await response.text();
  const isDocument = response.headers.get('Content-Type')?.includes('json');
  throw new Fault(isDocument ? JSON.parse(text).error : {what: text || `the server answered ${response.status}`});
}

/** GET of a document. */
export const ask = async (path, words) => (await raw(path, words)).json();

/** GET of bytes as they are. */
export const raw = (path, words) => good(fetch(route(path, words)));

/** POST of a document or a text; returns the document that is answered. */
export async function post(path, body) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const headers = {'X-Neroman': '1', 'Content-Type': typeof body === 'string' ? 'text/plain' : 'application/json'};
  const response = await good(fetch(path, {method: 'POST', headers, body: text}));
  return response.status === 204 ? null : response.json();
}

/** The stream of one window. It is closed while the tab is hidden: a browser has six connections
 *  for all tabs. While a stream opens, only the newest of further words is kept. */
export class Live {
  constructor(take, fail) {
    Object.assign(this, {take, fail, words: null, wanted: null, source: null, isOpening: false});
    this.onVisibility = () => (document.hidden ? this.#drop() : this.words && this.#open(this.words));
    document.addEventListener('visibilitychange', this.onVisibility);
  }

  ask(words) {
    if (this.isOpening) this.wanted = words;
    else this.#open(words);
  }

  #open(words) {
    this.#drop();
    this.words = words;
    if (document.hidden) return;
    const source = (this.source = new EventSource(route('/live', words)));
    this.isOpening = true;
    const answered = act => event => {
      if (source !== this.source) return;
      this.isOpening = false;
      act(event);
      const next = this.wanted;
      this.wanted = null;
      if (next) this.#open(next);
    };
    source.addEventListener('window', answered(event => this.take(JSON.parse(event.data), words)));
    source.addEventListener('fault', answered(event => {
      const {error} = JSON.parse(event.data);
      // The stream of a wrong selector ends, and would be opened again for ever.
      if (error.exit_code === 2) source.close();
      this.fail(new Fault(error));
    }));
    source.addEventListener('error', answered(() => {
      this.fail(null);
      // A stream that was refused does not tell why: a call does.
      if (source.readyState === EventSource.CLOSED) ask('/api/window', {...words, count: 1}).catch(error => this.fail(error));
    }));
  }

  #drop() {
    this.source?.close();
    this.source = null;
    this.isOpening = false;
  }

  close() {
    this.#drop();
    this.words = null;
    document.removeEventListener('visibilitychange', this.onVisibility);
  }
}

/** Calls a function once, when so many milliseconds passed without another call. */
export function later(ms, act) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), ms);
  };
}

/** Numbers as they are typed: `1-3,7`. */
export function ranges(ids) {
  const parts = [];
  for (const id of [...ids].sort((one, other) => one - other)) {
    const last = parts.at(-1);
    if (last && last[1] === id - 1) last[1] = id;
    else parts.push([id, id]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : last === first + 1 ? `${first},${last}` : `${first}-${last}`)).join(',');
}

/** The numbers of such a text; what is none is left out. */
export function numbers(text) {
  const ids = new Set();
  for (const part of (text ?? '').split(',')) {
    const [, first, last] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    for (let id = Number(first); id <= Number(last ?? first) && ids.size < 100000; id++) ids.add(id);
  }
  return ids;
}

const SIGNS = {running: '▶', ending: '◀', paused: '‖', finished: '✓', crashed: '✗', timeout: '✗', aborted: '■', lost: '?', queued: '·', staging: '·', submitted: '·', pending: '·'};

/** A state with sign and word, so that no meaning rests on its colour. */
export function stateMark(state, text = state) {
  return el(`span.state.${/^[a-z]+$/.test(state) ? state : 'unknown'}`, {}, el('span.sign', {'aria-hidden': 'true'}, SIGNS[state] ?? '○'), ` ${text}`);
}

/** Seconds as people read them: `3m12s`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '';
  const whole = Math.floor(seconds);
  const [d, h, m, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  if (d) return `${d}d ${h}h`;
  if (h) return `${h}h${String(m).padStart(2, '0')}m`;
  if (m) return `${m}m${String(s).padStart(2, '0')}s`;
  return `${seconds < 10 ? seconds.toFixed(1) : s}s`;
}

/** Bytes as people read them: `3.1G`. */
export function bytes(count) {
  if (count === null || count === undefined) return '';
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit < 5) [value, unit] = [value / 1024, unit + 1];
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)}${'BKMGTP'[unit]}`;
}

/** A number with at most five digits that count. */
export function short(value) {
  const number = Number(value);
  if (!Number.isFinite(number) || value === '' || value === null) return String(value ?? '');
  return Number.isInteger(number) && Math.abs(number) < 1e9 ? String(number) : String(Number(number.toPrecision(5)));
}

/** A moment in the zone of the browser. */
export function moment(text) {
  if (!text) return '';
  const at = new Date(text);
  const two = number => String(number).padStart(2, '0');
  const day = at.toDateString() === new Date().toDateString() ? '' : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
