// Starts the page: exchanges the token, goes to the page of the address, listens to keys.

import {el, faultText, post} from './api.js';
import {compare} from './compare.js';
import {CommandLine} from './line.js';
import {nodes} from './nodes.js';
import {run} from './run.js';
import {runs} from './runs.js';

const PAGES = {runs, run, compare, nodes};
const THEMES = {auto: '◐', light: '☀', dark: '☾'};

const [main, online, themeButton] = ['main', 'online', 'theme'].map(id => document.getElementById(id));
let shown;

const app = {
  line: new CommandLine(document.getElementById('foot')),
  /** Numbers that are marked, for the page that compares. */
  marks: '',
  /** What the address says. */
  words: () => Object.fromEntries(new URLSearchParams(location.search)),

  /** Keeps words in the address, beside those that are there. */
  keep(words) {
    const all = {...app.words(), ...words};
    for (const name of Object.keys(all)) if (!all[name]) delete all[name];
    history.replaceState(null, '', `?${new URLSearchParams(all)}`);
  },

  /** Goes to another page; Back returns. */
  go(words) {
    const known = Object.entries(words).filter(([, value]) => value);
    history.pushState(null, '', `?${new URLSearchParams(known)}`);
    open();
  },

  /** Whether the server answers. */
  online(is, version) {
    online.replaceChildren(el(is ? 'span.good' : 'span.bad', {title: version ?? ''}, is ? '● live' : '○ no answer'));
  },

  /** Whether pictures are to be dark. */
  isDark() {
    const theme = document.documentElement.dataset.theme;
    return theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  },

  /** Is called when light and dark change. */
  onTheme: () => {},
};

function open() {
  shown?.close();
  const {page = 'runs', id} = app.words();
  const name = Object.hasOwn(PAGES, page) ? page : 'runs';
  app.onTheme = () => {};
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.page === name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = name === 'runs' ? 'neronet' : `${id ?? name} · neronet`;
  main.className = name;
  main.replaceChildren();
  shown = PAGES[name](main, app);
}

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.replaceChildren(THEMES[theme]);
  themeButton.title = `colours: ${theme}`;
  localStorage.setItem('theme', theme);
  app.onTheme();
}

function storedTheme() {
  const theme = localStorage.getItem('theme');
  return Object.hasOwn(THEMES, theme) ? theme : 'auto';
}

const COMMON = [
  [':', 'type a line', () => app.line.input.focus()],
  ['1', 'runs', () => app.go({})],
  ['2', 'compare', () => app.go({page: 'compare', sel: app.marks})],
  ['3', 'nodes', () => app.go({page: 'nodes'})],
  ['?', 'these keys', () => listKeys()],
];

function listKeys() {
  const rows = [...(shown?.keys ?? []), ...COMMON].map(([key, about]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, about)]);
  const box = el('dialog', {'aria-label': 'keys'}, el('form', {method: 'dialog'}, el('h2', {}, 'Keys'), el('dl.keys', {}, rows), el('p.buttons', {}, el('button.primary', {}, 'Close'))));
  box.addEventListener('close', () => box.remove());
  document.body.append(box);
  box.showModal();
}

document.addEventListener('keydown', event => {
  const isTyped = event.target.closest('input:not([type=checkbox]), textarea, select, dialog');
  if (isTyped || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const known = [...(shown?.keys ?? []), ...COMMON].find(([key]) => key === event.key);
  if (!known) return;
  event.preventDefault();
  known[2]();
});

// Links stay in the page; with Ctrl they open a tab.
document.addEventListener('click', event => {
  const link = event.target.closest('a');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button || !link.getAttribute('href').startsWith('?')) return;
  event.preventDefault();
  const words = Object.fromEntries(new URLSearchParams(link.getAttribute('href')));
  app.go(link.dataset.page === 'compare' ? {...words, sel: app.marks} : words);
});
addEventListener('popstate', open);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => app.onTheme());
themeButton.addEventListener('click', () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(storedTheme()) + 1) % names.length]);
});
document.getElementById('help').addEventListener('click', listKeys);

setTheme(storedTheme());
const token = new URLSearchParams(location.hash.slice(1)).get('token');
try {
  if (token) await post('/login', token);
  open();
} catch (error) {
  main.replaceChildren(el('pre.fault', {role: 'alert'}, faultText(error)));
}
if (token) history.replaceState(null, '', location.pathname + location.search);
