// A log of a run: its last lines, what comes, and what stands before.

import {el, faultText, raw} from './api.js';

/** Lines at first, and bytes of a step upwards. */
const LINES = 400;
const STEP = 65536;
/** Characters that are kept. */
const KEPT_MAX = 2000000;

export class Log {
  constructor(host, run) {
    Object.assign(this, {run, stream: 'stdout', first: 0, next: 0});
    this.box = el('pre.log', {tabindex: '0', role: 'log', 'aria-label': 'log'});
    this.follow = el('input', {type: 'checkbox', checked: true, 'aria-label': 'follow'});
    this.streams = ['stdout', 'stderr'].map(name => el('button', {'aria-pressed': String(name === this.stream), onclick: () => this.turn(name)}, name));
    this.up = el('button', {onclick: () => this.before()}, 'Earlier');
    this.place = el('span.quiet');
    host.append(el('div.bar', {}, ...this.streams, el('label', {}, this.follow, 'follow'), this.up, this.place), this.box);
    this.turn('stdout');
  }

  turn(stream) {
    this.stream = stream;
    this.streams.forEach(button => button.setAttribute('aria-pressed', String(button.textContent === stream)));
    return this.#read({last: LINES}, true);
  }

  /** What came since; called when the run changed. */
  more() {
    if (this.follow.checked) this.#read({from: this.next}, false);
  }

  async #read(range, isNew) {
    if (this.isReading && !isNew) return;
    const {stream} = this;
    this.isReading = true;
    try {
      const response = await raw('/log', {run: this.run, stream, ...range});
      const text = await response.text();
      const [from, next] = ['X-From', 'X-Next'].map(name => Number(response.headers.get(name)));
      if (stream !== this.stream) return;
      Object.assign(this, {next, first: isNew ? from : this.first, notice: JSON.parse(response.headers.get('X-Notice') ?? '""')});
      if (isNew) this.box.replaceChildren(this.#plain(text));
      else if (text) this.box.append(this.#plain(text));
      this.#kept();
      if (this.follow.checked && (isNew || text)) this.box.scrollTop = this.box.scrollHeight;
      if (text && !response.headers.has('X-End')) setTimeout(() => this.more());
    } catch (error) {
      if (isNew) this.box.replaceChildren(el('span.bad', {}, faultText(error)));
    } finally {
      this.isReading = false;
    }
  }

  /** Of overwritten lines (`\r`) the last state, without colours. */
  #plain(text) {
    const lines = text.replace(/\r\n/g, '\n').split('\n').map(line => line.slice(line.lastIndexOf('\r', line.length - 2) + 1));
    return el('span', {}, lines.join('\n').replace(/\u001b\[[0-9;]*[mK]/g, ''));
  }

  #kept() {
    while (this.box.textContent.length > KEPT_MAX && this.box.childNodes.length > 1) {
      this.box.firstChild.remove();
      this.first = null;
    }
    this.up.disabled = !this.first;
    this.place.textContent = this.notice || (this.next ? `${this.next.toLocaleString()} bytes` : 'nothing yet');
  }

  async before() {
    const from = Math.max(0, this.first - STEP);
    const response = await raw('/log', {run: this.run, stream: this.stream, from});
    const data = new Uint8Array(await response.arrayBuffer()).slice(0, this.first - from);
    const height = this.box.scrollHeight;
    this.box.prepend(this.#plain(new TextDecoder().decode(data)));
    this.box.scrollTop += this.box.scrollHeight - height;
    this.first = from;
    this.#kept();
  }
}
