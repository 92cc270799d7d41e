// @vitest-environment jsdom
import { flushSync, mount, unmount } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import { describe, expect, it, vi } from 'vitest';
import { tableOf } from '../src/charts/html';
import Markdown, { loadMarkdown } from '../src/view/parts/Markdown.svelte';
import { rangesOf } from '../src/view/parts/attachments';
import { renderMarkdown } from '../src/view/parts/markdown';
import Arguments from '../src/view/tools/Arguments.svelte';
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

  it('show what a tool is given by name, and only what is nested as JSON', async () => {
    const target = document.createElement('div');
    const shown = (input: unknown) => {
      const view = mount(Arguments, { target, props: { input } });
      flushSync();
      const text = [...target.querySelectorAll('dt, dd, p')].map((each) => `${each.textContent}${each.classList.contains('nested') ? ' nested' : ''}`);
      void unmount(view);
      return text;
    };
    expect(shown({ to: 'ada@example.org', copies: 2, note: '', urgent: null, parts: ['a'] })).toEqual([
      'to', 'ada@example.org', 'copies', '2', 'note', '“”', 'urgent', 'null', 'parts', '[\n  "a"\n] nested',
    ]);
    expect(['x', {}, undefined].flatMap(shown)).toEqual(['x nested', '{} nested', '{} nested']);
  });

  it('show all rows of a table on paper', async () => {
    const target = document.createElement('div');
    const table = tableOf({ columns: [{ key: 'a' }], data: Array.from({ length: 120 }, (_, a) => ({ a })) });
    for (const [whole, rows] of [[false, 50], [true, 120]] as const) {
      const view = mount(TableView, { target, props: { table, whole } });
      flushSync();
      expect(target.querySelectorAll('tbody tr')).toHaveLength(rows);
      await unmount(view);
    }
  });

  it('show Markdown that is nested too deep as text', () => {
    const deep = '>'.repeat(20_000);
    expect(renderMarkdown(`${deep} <b>x</b>`)).toMatch(/&lt;b&gt;x/);
  });

  it('draw a long text less often while it grows, and in the end all of it', async () => {
    vi.stubGlobal('CSS', {});
    await loadMarkdown();
    vi.useFakeTimers();
    const target = document.createElement('div');
    const said = new SvelteMap([['text', 'x'.repeat(20_000)]]);
    const view = mount(Markdown, { target, props: { get text() { return said.get('text') ?? ''; } } });
    const after = (ms: number, more: string) => {
      said.set('text', `${said.get('text')}${more}`);
      flushSync();
      vi.advanceTimersByTime(ms);
      flushSync();
      return (target.textContent ?? '').split('y').length - 1;
    };
    expect([after(40, 'y'), after(40, 'y'), after(40, 'y'), after(0, 'y'), after(200, '')]).toEqual([0, 0, 3, 3, 4]);
    await unmount(view);
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('mark found words where lower case is longer', () => {
    const element = document.createElement('p');
    element.textContent = 'İİİ go'; // three letters are six in lower case
    expect(rangesOf(element, ['go'])).toHaveLength(1);
    element.textContent = 'Go and go';
    expect(rangesOf(element, ['go']).map(String)).toEqual(['Go', 'go']);
  });
});
