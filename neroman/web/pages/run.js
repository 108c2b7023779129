// The page of one experiment or run: facts, log, curves with rules, code, files, history.

import {LISTED_MAX, Live, ask, bytes, duration, el, faultText, later, moment, more, route, safe, stateMark} from './api.js';
import {Curves} from './curves.js';
import {Log} from './log.js';
import {quoted} from './line.js';
import {ACTIONS as ALL} from './runs.js';

/** What is done with one experiment; its note and tags are typed as lines. */
const ACTIONS = ALL.filter(([, verb]) => verb !== 'note' && verb !== 'tag');

export const run = (main, app) => new Run(main, app);

/** Names with their values; what is unknown is left out. */
function facts(rows) {
  const known = rows.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false);
  return el('dl.facts', {}, known.map(([name, value]) => [el('dt', {}, name), el('dd', {}, value instanceof Node ? value : String(value))]));
}

const card = (title, ...parts) => el('section.card', {}, el('h2', {}, title), parts);

class Run {
  constructor(main, app) {
    Object.assign(this, {app, what: app.words().id ?? '', isDrawn: false});
    this.id = this.what.split('.')[0];
    this.head = el('div.title');
    this.news = el('div.news');
    this.cards = el('div.columns');
    this.curvesCard = card('Curves');
    this.logCard = card('Log');
    this.rest = el('div.columns');
    main.replaceChildren(this.head, this.news, this.cards, this.curvesCard, this.logCard, this.rest);
    app.onTheme = () => this.curves?.refresh(false);
    this.load();
    this.soon = later(300, () => this.load());
    this.live = new Live(reply => {
      app.online(true, reply.version);
      app.line.lock(reply.read_only);
      this.isLocked = reply.read_only;
      if (this.isSeen) this.soon();
      this.isSeen = true;
    }, error => (error ? this.failed(error) : app.online(false)));
    this.live.ask({sel: this.id, offset: 0, count: 1, columns: ['id', 'state']});
  }

  failed(error) {
    this.news.replaceChildren(el('pre.fault', {role: 'alert'}, faultText(error)));
  }

  async load() {
    try {
      const show = await ask('/api/show', {w: [this.what]});
      this.draw(show);
      const why = await ask('/api/rule-why', {w: [this.what]}).catch(() => ({rules: []}));
      const files = show.run?.results ? await ask('/files', {run: show.run.run}).catch(() => ({files: []})) : {files: []};
      this.drawRest(show, why.rules, files);
    } catch (error) {
      this.failed(error);
    }
  }

  draw({experiment: e, run: r, ...all}) {
    document.title = `${this.what} ${safe(e.name)} · neronet`;
    const state = r?.state ?? e.state;
    const act = ([key, verb, name]) => el('button', {'aria-keyshortcuts': key, onclick: () => this.app.line.propose([verb, this.id])}, name);
    const focused = [...this.head.querySelectorAll('button')].indexOf(document.activeElement);
    this.head.replaceChildren(el('h1', {}, `${this.what} ${e.name}`), stateMark(state), ...e.tags.map(tag => el('span.tag', {}, tag)), el('span.note', {}, e.note ?? ''), ...(this.isLocked ? [] : ACTIONS.map(act)));
    this.head.querySelectorAll('button')[focused]?.focus();
    const reason = state === 'finished' ? null : r?.reason ?? e.reason;
    this.news.replaceChildren(...[reason, r?.stderr_line ?? e.stderr_line, e.waiting_for && `waits: ${e.waiting_for}`, e.held, e.wish, e.contact, e.follows?.text, ...e.hints, ...e.warnings, ...all.notes, e.edited_since_run && 'its definition was edited since this run'].filter(Boolean).map(text => el('p', {}, text)));
    const progress = r?.progress ?? e.progress, metrics = Object.keys(e.metrics);
    this.cards.replaceChildren(
      card('Facts', facts([
        ['collection', e.collection], ['run', r?.run], ['node', r?.node ?? e.node], ['hosts', e.hosts.join(' ')], ['image', e.image],
        ['runtime', duration(r?.runtime_s ?? e.runtime_s)], ['progress', progress === null ? null : `${Math.round(progress * 100)}%${e.eta_s ? `, about ${duration(e.eta_s)} left` : ''}`],
        ['submitted', moment(r?.created_at)], ['started', moment(r?.started_at)], ['ended', moment(r?.ended_at)],
        ['exit code', r?.exit_code], ['signal', r?.signal], ['batch', r?.batch],
        ['cpu', all.user_cpu_s && `${duration(all.user_cpu_s)} user, ${duration(all.system_cpu_s ?? 0)} system${e.cpu_cores ? `, ${e.cpu_cores.toFixed(1)} cores now` : ''}`], ['memory', all.peak_rss_bytes && `${bytes(all.peak_rss_bytes)} at most`],
      ])),
      card('Parameters', facts(Object.entries(e.parameters).map(([name, value]) => {
        const set = e.overrides.find(one => one.key === name);
        return [name, set ? el('span', {}, String(value), el('span.quiet', {}, ` set by you, ${set.source ?? 'none'} in its source`)) : typeof value === 'object' ? JSON.stringify(value) : String(value)];
      }))),
      card('Metrics', el('table.plain', {}, el('thead', {}, el('tr', {}, ['metric', 'last', 'min', 'max', 'points'].map((name, at) => el(at ? 'th.number' : 'th', {scope: 'col'}, name)))),
        el('tbody', {}, Object.entries(e.metrics).slice(0, LISTED_MAX).map(([name, one]) => el('tr', {}, el('td', {}, name), [one.last, one.min, one.max, one.count].map(value => el('td.number', {}, String(value))))))),
        el('p.quiet', {}, more(metrics.length))));
    if (!this.log && r) this.log = new Log(this.logCard, r.run);
    else this.log?.more();
    if (this.curves) this.curves.known(metrics);
    else if (metrics.length) this.curves = new Curves(this.curvesCard, this.app, r?.run ?? this.id, metrics);
    this.curvesCard.hidden = !this.curves;
    this.logCard.hidden = !this.log;
  }

  drawRest(show, rules, {files, more}) {
    const {experiment: e, run: r, resources} = show;
    const asks = facts([['cpus', resources.cpus], ['memory', bytes(resources.memory_bytes)], ['time', duration(resources.time_s)], ['gpus', resources.gpus], ['gpu type', resources.gpu_type], ...Object.entries(resources.scheduler)]);
    const git = Object.entries(show.git ?? {}).map(([name, value]) => [name, typeof value === 'object' ? JSON.stringify(value) : value]);
    const isOpen = [...this.rest.querySelectorAll('details')].map(one => one.open);
    this.rest.replaceChildren(
      card('Rules', rules.length ? rules.map(rule => el('div', {}, el('p', {}, el('strong', {}, `${rule.action}: ${rule.text}`), el('span.quiet', {}, ` ${rule.fired ? `fired ${rule.fired} times, last ${moment(rule.last_fired_at)}` : 'never fired'}`)),
        el('pre.quiet', {}, rule.parts.map(part => `${'  '.repeat(part.depth + 1)}${part.text}: ${part.holds}`).join('\n')), rule.problem && el('p.bad', {}, rule.problem))) : el('p.quiet', {}, 'none')),
      card('Runs', el('table.plain', {}, el('tbody', {}, show.runs.map(one => el('tr', {}, el('td', {}, el('a', {href: `?page=run&id=${one.run}`, 'aria-current': one.run === r?.run && 'true'}, one.run)), el('td', {}, stateMark(one.state)), el('td', {}, one.node ?? ''), el('td.number', {}, duration(one.runtime_s)), el('td', {}, moment(one.started_at))))))),
      card('Command and code', el('pre', {}, show.command.map(quoted).join(' ')), facts([['folder', e.path], ['tree', show.tree?.slice(0, 16)], ...git, ['results', r?.results], ['work', show.work]])),
      card('Resources', asks),
      card('Files', files.length ? el('table.plain', {}, el('tbody', {}, files.map(file => el('tr', {}, el('td', {}, el('a', {href: route('/file', {run: r.run, path: file.path}), download: true}, file.path)), el('td.number', {}, bytes(file.bytes)))))) : el('p.quiet', {}, 'none here yet'), more ? el('p.quiet', {}, `and ${more} more`) : null),
      card('History', el('pre', {}, show.history.join('\n'))),
      card('Environment', el('details', {}, el('summary', {}, `${Object.keys(show.env).length} variables`), facts(Object.entries(show.env))), el('pre.quiet', {}, show.facts.join('\n'))));
    this.rest.querySelectorAll('details').forEach((one, at) => (one.open = isOpen[at] ?? false));
  }

  close() {
    this.live.close();
  }

  get keys() {
    return [
      ...ACTIONS.map(([key, verb, name]) => [key, name.toLowerCase(), () => this.isLocked || this.app.line.propose([verb, this.id])]),
      ['n', 'note', () => this.app.line.propose(['note', this.id], ' ')],
      ['e', 'standard error, or standard output', () => this.log?.turn(this.log.stream === 'stdout' ? 'stderr' : 'stdout')],
      ['f', 'follow the log', () => this.log && (this.log.follow.checked = !this.log.follow.checked)],
      ['[', 'the experiment before', () => this.app.go({page: 'run', id: String(Number(this.id) - 1)})],
      [']', 'the next experiment', () => this.app.go({page: 'run', id: String(Number(this.id) + 1)})],
    ];
  }
}
