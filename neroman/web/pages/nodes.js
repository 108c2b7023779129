// The page of nodes: how busy they are, what waits there, what the doctor finds.

import {Live, ask, bytes, el, faultText, later, moment, stateMark} from './api.js';

/** Waiting runs that are listed. */
const QUEUE_MAX = 100;
const SIGNS = {good: '✓', warning: '!', bad: '✗'};

/** A share as a bar with its figures; above a limit it stands out. */
function meter(name, share, text, limit = 0.9) {
  return el('div.meter', {}, el('span.quiet', {}, name), el(share > limit ? 'progress.hot' : 'progress', {max: 1, value: Math.min(1, share || 0), 'aria-label': name}), el('span', {}, text));
}

const percent = share => `${Math.round(share * 100)}%`;

export function nodes(main, app) {
  const cards = el('div.columns');
  const queue = el('section.card');
  const found = new Map();
  main.replaceChildren(cards, queue);

  function doctor(name) {
    found.set(name, el('p.quiet', {}, 'the doctor looks …'));
    draw();
    ask('/api/doctor', {w: [name]}).then(({lines, findings}) => {
      found.set(name, el('div', {}, lines.map(line => el('p', {}, line)), findings.map(one => el(one.level === 'good' ? 'p.quiet' : 'p.bad', {}, `${SIGNS[one.level] ?? '·'} ${one.what}: ${one.text}`, one.hint && el('span.quiet', {}, ` ${one.hint}`)))));
    }, error => found.set(name, el('pre.fault', {}, faultText(error)))).then(draw);
  }

  function card(node) {
    const used = node.cpus - node.cpus_free;
    const gpus = node.gpus ?? [];
    const text = node.connected ? 'connected' : node.why_not ?? (node.contact_at ? 'at rest' : 'not reached yet');
    const lines = [node.hint, node.hold, node.figures_are_old && 'these figures are old', ...(node.troubles ?? [])];
    return el('section.card', {},
      el('h2', {}, node.name, ' ', el(node.connected ? 'span.good' : node.why_not ? 'span.bad' : 'span.quiet', {}, `${node.connected ? '●' : '○'} ${text}`)),
      lines.filter(Boolean).map(line => el('p.bad', {}, line)),
      node.cpus > 0 && meter('cpus', used / node.cpus, `${Number(used.toFixed(2))} of ${node.cpus} given`, 1),
      node.cpus > 0 && node.load_15 !== null && meter('load', node.load_15 / node.cpus, `${node.load_15.toFixed(1)} in 15 min`),
      node.memory_bytes > 0 && node.memory_used !== null && meter('memory', node.memory_used, `${percent(node.memory_used)} of ${bytes(node.memory_bytes)}`),
      node.disk_used !== null && meter('disk', node.disk_used, `${percent(node.disk_used)}, ${bytes(node.disk_free_bytes)} free`),
      gpus.map(gpu => [meter(`gpu ${gpu.index}`, gpu.utilisation, `${percent(gpu.utilisation ?? 0)} ${gpu.name}`, 1), gpu.memory_bytes > 0 && meter('', gpu.memory_used_bytes / gpu.memory_bytes, `${bytes(gpu.memory_used_bytes)} of ${bytes(gpu.memory_bytes)}`)]),
      el('p', {}, `${node.live} live, ${node.waiting} waiting`, el('span.quiet', {}, [node.warden, node.address, node.host, node.arch, node.round_trip_ms && `${node.round_trip_ms.toFixed(0)} ms away`, node.contact_at && `seen ${moment(node.contact_at)}`].filter(Boolean).map(part => ` · ${part}`).join(''))),
      el('div.bar', {}, el('button', {onclick: () => doctor(node.name), 'aria-label': `doctor of ${node.name}`}, 'Doctor'), el('a', {href: `?${new URLSearchParams({sel: `node == '${node.name.replaceAll("'", "''")}'`})}`}, 'its runs')),
      found.get(node.name));
  }

  let known = [];
  function draw() {
    const at = [...cards.querySelectorAll('button, a')].indexOf(document.activeElement);
    cards.replaceChildren(...known.map(card));
    cards.querySelectorAll('button, a')[at]?.focus();
  }
  async function load() {
    try {
      known = (await ask('/api/nodes')).nodes;
      draw();
    } catch (error) {
      cards.replaceChildren(el('pre.fault', {role: 'alert'}, faultText(error)));
    }
  }
  const soon = later(500, load);
  const live = new Live(({experiments, totals, read_only, version}) => {
    app.online(true, version);
    app.line.lock(read_only);
    const row = one => el('tr', {}, el('td.number', {}, el('a', {href: `?page=run&id=${one.id}`}, String(one.id))), el('td', {}, one.name), el('td', {}, stateMark(one.state)), el('td', {}, one.node ?? ''), el('td', {}, one.held ?? one.waiting_for ?? ''));
    const more = totals.experiments - experiments.length;
    const why = more > 0 ? totals.waits.map(one => el('p', {}, `${one.count}: ${one.text} `, el('span.quiet', {}, one.ids))) : [];
    queue.replaceChildren(el('h2', {}, `Queue: ${totals.experiments} waiting`), ...why, totals.experiments ? el('table.plain', {}, el('tbody', {}, experiments.map(row))) : el('p.quiet', {}, 'nothing waits'), more > 0 ? el('p.quiet', {}, `and ${more} more`) : '');
    soon();
  }, error => (error ? queue.replaceChildren(el('pre.fault', {}, faultText(error))) : app.online(false)));
  live.ask({sel: 'queued,staging,submitted,pending', offset: 0, count: QUEUE_MAX, columns: ['id']});
  load();
  const timer = setInterval(() => document.hidden || load(), 5000);
  return {keys: [], close: () => (live.close(), clearInterval(timer))};
}
