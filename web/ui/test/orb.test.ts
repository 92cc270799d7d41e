import { describe, expect, it } from 'vitest';
import { suggestionsOf } from '../src/page/suggestions.svelte';
import { byThread } from '../src/api/server';
import { barsOf, paintOrb, readRgb, towards } from '../src/view/parts/orb';
import { t, type Word } from '../src/words/language.svelte';

const en = t();

const silence = { you: 0, assistant: 0 };

describe('the orb', () => {
  it('moves with the side that is heard', () => {
    const tall = (word: Word, you: number, assistant: number) => Math.max(...barsOf(word, { you, assistant }, 0.1));
    expect(tall('speaking', 0, 0.9)).toBeGreaterThan(tall('speaking', 0.9, 0));
    expect(tall('hearing', 0.9, 0)).toBeGreaterThan(tall('hearing', 0, 0.9));
    expect(tall('listening', 1, 0)).toBeLessThanOrEqual(1.1);
  });

  it('looks different in each state, and the same at the same moment', () => {
    const look = (word: Word, seconds: number) => {
      const calls: string[] = [];
      const gradient = { addColorStop: (...stop: unknown[]) => void calls.push(stop.join()) };
      const context = new Proxy({} as CanvasRenderingContext2D, {
        get: (_, name) => (name === 'createRadialGradient' ? () => gradient : (...args: unknown[]) => void calls.push(`${String(name)} ${args.map((n) => (typeof n === 'number' ? n.toFixed(2) : n)).join()}`)),
        set: (_, name, value) => calls.push(`${String(name)}=${String(value)}`) > 0,
      });
      paintOrb(context, 240, word, { tone: [42, 111, 93], on: [255, 255, 255] }, silence, seconds);
      return calls.join('\n');
    };
    const words: Word[] = ['listening', 'hearing', 'thinking', 'tool', 'approval', 'muted', 'connecting'];
    expect(new Set(words.map((word) => look(word, 1))).size).toBe(words.length);
    for (const word of words) expect(look(word, 2)).toBe(look(word, 2));
    for (const word of words.filter((word) => word !== 'muted')) expect(look(word, 1.1)).not.toBe(look(word, 1.3));
  });

  it('reads colours as browsers write them, and goes from one to another', () => {
    expect([readRgb('rgb(42, 111, 93)'), readRgb('rgba(1, 2, 3, 0.5)'), readRgb('')]).toEqual([[42, 111, 93], [1, 2, 3], [0, 0, 0]]);
    expect(towards([0, 0, 100], [100, 0, 0], 0.5)).toEqual([50, 0, 50]);
  });
});

describe('what one could say', () => {
  const tool = (name: string, server = '') => ({ name, server });
  it.each([
    ['without tools', [], en.suggestions.always.slice(0, 4)],
    ['fits the tools', [tool('webSearch'), tool('create_bar_chart')], [en.suggestions.chart, en.suggestions.search, ...en.suggestions.always.slice(0, 2)]],
    ['names a server', [tool('mail__send', 'mail')], [en.suggestions.server('mail'), ...en.suggestions.always.slice(0, 3)]],
    ['is four things', [tool('webSearch'), tool('create_bar_chart'), tool('createTable'), tool('create_geographic_chart'), tool('webContent')], [en.suggestions.chart, en.suggestions.search, en.suggestions.map, en.suggestions.always[0]]],
  ] as const)('%s', (_, tools, want) => {
    expect(suggestionsOf([...tools])).toEqual(want);
  });
});

it('usage is one row for each thread, the latest first', () => {
  const row = (threadId: string, day: string, cost: number | null) => ({ threadId, day, cost, title: threadId, inputTokens: 10, outputTokens: 1, unpriced: 0 });
  const rows = byThread([row('a', '2026-01-01', 0.5), row('b', '2026-01-03', null), row('a', '2026-01-04', null), row('a', '2026-01-02', 0.25)]);
  expect(rows.map(({ threadId, day, cost, inputTokens }) => [threadId, day, cost, inputTokens])).toEqual([
    ['a', '2026-01-04', 0.75, 30],
    ['b', '2026-01-03', null, 10],
  ]);
});
