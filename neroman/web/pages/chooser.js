// Chooses columns: names as `status --columns` takes them.

import {LISTED_MAX, ask, el, more, safe} from './api.js';

/** Texts between the commas of a list; a comma in brackets is an expression's. */
function names(list) {
  const texts = [''];
  let depth = 0;
  for (const letter of list) {
    depth += letter === '(' ? 1 : letter === ')' ? -1 : 0;
    if (letter === ',' && depth <= 0) texts.push('');
    else texts.push(texts.pop() + letter);
  }
  return texts.map(text => text.trim()).filter(Boolean);
}

/** Asks for columns; none are those that tell most, `null` is no choice. */
export async function chooser(sel, shown) {
  const {fields, parameters, metrics} = await ask('/api/columns', {sel});
  const list = el('input', {value: shown.join(', '), 'aria-label': 'columns in their order', spellcheck: 'false'});
  const search = el('input', {type: 'search', 'aria-label': 'search columns', placeholder: 'search'});
  const choices = el('div.choices');
  const draw = () => {
    const chosen = names(list.value);
    const toggle = name => {
      const now = names(list.value);
      list.value = (now.includes(name) ? now.filter(one => one !== name) : [...now, name]).join(', ');
    };
    const parts = [['Fields', fields], ['Parameters', parameters], ['Metrics', metrics]].map(([title, all]) => {
      const found = all.filter(name => safe(name).toLowerCase().includes(search.value.toLowerCase()));
      const boxes = found.slice(0, LISTED_MAX).map(name => el('label', {}, el('input', {type: 'checkbox', checked: chosen.includes(name), onchange: () => toggle(name)}), ` ${name}`));
      return boxes.length > 0 && el('fieldset', {}, el('legend', {}, title + more(found.length)), boxes);
    });
    choices.replaceChildren(...parts.filter(Boolean));
  };
  search.addEventListener('input', draw);
  list.addEventListener('change', draw);
  draw();
  const dialog = el('dialog.chooser', {'aria-label': 'columns'}, el('form', {method: 'dialog'},
    el('h2', {}, 'Columns'),
    list,
    el('p.quiet', {}, 'names in their order, also expressions: id, name, min(loss), loss@10, mean(loss, 10m)'),
    search, choices,
    el('p.buttons', {}, el('button.primary', {value: 'take'}, 'Show these'), el('button', {value: 'default'}, 'Those that tell most'), el('button', {value: ''}, 'Cancel'))));
  document.body.append(dialog);
  dialog.showModal();
  search.focus();
  await new Promise(resolve => dialog.addEventListener('close', resolve, {once: true}));
  dialog.remove();
  if (dialog.returnValue === 'take') return names(list.value);
  return dialog.returnValue === 'default' ? [] : null;
}
