// @vitest-environment jsdom
import { flushSync, mount, unmount } from 'svelte';
import { afterEach, describe, expect, it } from 'vitest';
import { arranged, tableOf } from '../src/charts/html';
import TableView from '../src/view/tools/TableView.svelte';

const table = tableOf({
  columns: [
    { key: 'name', label: 'Station' },
    { key: 'height', label: 'Height', type: 'number' },
    { key: 'since', label: 'Since', type: 'date' },
  ],
  data: [
    { name: 'Rigi Kulm', height: 1752, since: '1873-06-27' },
    { name: 'arth', height: 510, since: '1875-06-04' },
    { name: 'Old halt', height: null },
    { name: 'Elm 10', height: '?', since: '1999-01-01' },
    { name: 'Elm 9', height: 980, since: '' },
  ],
});

describe('arranged', () => {
  const names = (column: number | null, down = false, search = '') =>
    arranged(table, column === null ? null : { column, down }, search).map((at) => table.rows[at]?.[0]);

  it.each([
    ['as they came', null, false, '', ['Rigi Kulm', 'arth', 'Old halt', 'Elm 10', 'Elm 9']],
    ['by words', 0, false, '', ['arth', 'Elm 9', 'Elm 10', 'Old halt', 'Rigi Kulm']],
    ['by words, down', 0, true, '', ['Rigi Kulm', 'Old halt', 'Elm 10', 'Elm 9', 'arth']],
    ['by numbers, not by what is written', 1, false, '', ['arth', 'Elm 9', 'Rigi Kulm', 'Elm 10', 'Old halt']],
    ['by numbers, down', 1, true, '', ['Elm 10', 'Rigi Kulm', 'Elm 9', 'arth', 'Old halt']],
    ['by dates', 2, false, '', ['Rigi Kulm', 'arth', 'Elm 10', 'Old halt', 'Elm 9']],
    ['that hold all words', 1, true, ' 9  E', ['Elm 10', 'Elm 9']],
    ['that hold what is shown', null, false, '1,752', ['Rigi Kulm']],
    ['that there are not', null, false, 'nowhere', []],
    ['by a column that there is not', 7, true, 'elm', ['Elm 10', 'Elm 9']],
  ] as const)('gives the rows %s', (_, column, down, search, want) => {
    expect(names(column, down, search)).toEqual(want);
  });
});

describe('TableView', () => {
  let view: Record<string, never> | undefined;
  afterEach(() => view && void unmount(view));

  function show(rows = table) {
    view = mount(TableView, { target: document.body, props: { table: rows } });
    const all = <T extends Element>(selector: string) => [...document.querySelectorAll<T>(selector)];
    return {
      all,
      names: () => all('tbody tr').map((row) => row.firstElementChild?.textContent),
      sorted: () => all('th').map((head) => head.getAttribute('aria-sort')),
      press: (at: number) => {
        all<HTMLButtonElement>('th button')[at]?.click();
        flushSync();
      },
    };
  }

  it('sorts by a press on a heading: up, down, and back', () => {
    const { names, sorted, press } = show();
    const came = names();
    expect(sorted()).toEqual([null, null, null]);
    press(1);
    expect([sorted(), names()[0]]).toEqual([[null, 'ascending', null], 'arth']);
    press(1);
    expect([sorted(), names()[0]]).toEqual([[null, 'descending', null], 'Elm 10']);
    press(1);
    expect([sorted(), names()]).toEqual([[null, null, null], came]);
    press(1);
    press(0);
    expect(sorted()).toEqual(['ascending', null, null]);
  });

  it('searches, and says how much it found', () => {
    const { all, names } = show();
    const search = all<HTMLInputElement>('input[type=search]')[0] as HTMLInputElement;
    expect(search.getAttribute('aria-label')).toBe('Search the table');
    const find = (words: string) => {
      search.value = words;
      search.dispatchEvent(new Event('input', { bubbles: true }));
      flushSync();
      return all('[role=status]')[0]?.textContent;
    };
    expect([find('elm'), names()]).toEqual(['2 of 5 rows', ['Elm 10', 'Elm 9']]);
    expect([find('nowhere'), names()]).toEqual(['0 of 5 rows', ['No rows match.']]);
    expect([find(' '), names().length]).toEqual(['', 5]);
  });

  it('has no search box for a single row', () => {
    expect(show(tableOf({ columns: [{ key: 'a', label: 'A' }], data: [{ a: 1 }] })).all('input')).toEqual([]);
  });
});
