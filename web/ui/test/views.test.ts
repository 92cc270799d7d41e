// @vitest-environment jsdom
import { flushSync, mount, unmount } from 'svelte';
import { describe, expect, it } from 'vitest';
import { tableOf } from '../src/charts/html';
import { rangesOf } from '../src/view/parts/attachments';
import { renderMarkdown } from '../src/view/parts/markdown';
import TableView from '../src/view/tools/TableView.svelte';

describe('odd answers of models and tools', () => {
  it('show a table whose columns have one name, or none', async () => {
    const target = document.createElement('div');
    const table = tableOf({ columns: [{ key: 'a' }, { key: 'a' }, {}, {}], data: [{ a: 1 }] });
    const view = mount(TableView, { target, props: { table } });
    flushSync();
    expect([...target.querySelectorAll('td')].map((cell) => cell.textContent)).toEqual(['1', '1', '', '']);
    await unmount(view);
  });

  it('show Markdown that is nested too deep as text', () => {
    const deep = '>'.repeat(20_000);
    expect(renderMarkdown(`${deep} <b>x</b>`)).toMatch(/&lt;b&gt;x/);
  });

  it('mark found words where lower case is longer', () => {
    const element = document.createElement('p');
    element.textContent = 'İİİ go'; // three letters are six in lower case
    expect(rangesOf(element, ['go'])).toHaveLength(1);
    element.textContent = 'Go and go';
    expect(rangesOf(element, ['go']).map(String)).toEqual(['Go', 'go']);
  });
});
