import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Outbox } from '../src/page/outbox.svelte';

// The server, as far as the outbox sees it: what it said no for, and the texts that it has by their keys.
let answers: (() => Response)[];
let posts: { path: string; text: string; key: string }[];
let refused: string[];
let held: boolean;
let kept: Map<string, string>;

const json = (status: number, code: string) => () => new Response(JSON.stringify({ error: { code, message: code } }), { status, headers: { 'Content-Type': 'application/json' } });
const lost = () => {
  throw new TypeError('network');
};
const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };

function outbox() {
  return new Outbox({ holds: () => held, onRefused: ({ text }) => void refused.push(text) }, storage);
}

/** Says texts in a call, and returns the ids of those that its data channel carries. */
function say(box: Outbox, ...texts: string[]): string[] {
  const carried: string[] = [];
  for (const text of texts) box.say('t', 'call', text, (id) => void carried.push(id));
  return carried;
}

const sent = () => posts.map(({ path, text }) => `${path} ${text}`);

beforeEach(() => {
  vi.useFakeTimers();
  [answers, posts, refused, held, kept] = [[], [], [], false, new Map()];
  vi.stubGlobal('document', { baseURI: 'http://here/' });
  vi.stubGlobal('sessionStorage', storage);
  vi.stubGlobal('fetch', async (url: URL, { body }: RequestInit) => {
    const { content, message, idempotency_key: key } = JSON.parse(String(body)) as Record<string, string>;
    posts.push({ path: url.pathname.split('/').at(-1)!, text: content ?? message!, key: key! });
    return (answers.shift() ?? (() => new Response('')))();
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('a text typed into a call', () => {
  it('is unsaved until the server names it, whatever the data channel says', async () => {
    const box = outbox();
    const [one, two] = say(box, 'one', 'two');
    box.heard(one!);
    expect(box.list.map(({ text, heard }) => [text, heard === true])).toEqual([['one', true], ['two', false]]);
    box.saved(one);
    box.saved(undefined);
    expect(box.list.map(({ text }) => text)).toEqual(['two']);
    box.saved(two);
    box.release();
    await vi.runAllTimersAsync();
    expect([box.waits('t'), posts]).toEqual([false, []]);
  });

  it('is sent by HTTP when the call leaves it unsaved, in order and under the key of its item', async () => {
    const box = outbox();
    const ids = say(box, 'one', 'one', 'two');
    box.heard(ids[0]!); // heard is not saved
    box.release();
    await vi.runAllTimersAsync();
    expect(posts).toEqual(ids.map((id, at) => ({ path: 'messages', text: ['one', 'one', 'two'][at], key: `call/${id}` })));
    expect([box.list, kept.get('voicebridge-outbox')]).toEqual([[], '[]']);
  });

  it('waits for a server that is away', async () => {
    const box = outbox();
    answers = [lost, json(503, 'storage'), json(409, 'call_active')];
    say(box, 'one', 'two');
    box.release();
    await vi.runAllTimersAsync();
    expect(sent()).toEqual(['messages one', 'messages one', 'messages one', 'messages one', 'messages two']);
    expect(new Set(posts.slice(0, 4).map(({ key }) => key)).size).toBe(1);
    expect([box.list, refused]).toEqual([[], []]);
  });

  it('waits in the queue behind what is being answered, and is then asked for only there', async () => {
    const box = outbox();
    answers = [json(409, 'agent_busy'), lost];
    say(box, 'one');
    box.release();
    await vi.runAllTimersAsync();
    expect(sent()).toEqual(['messages one', 'queue one', 'queue one']);
    expect(box.list).toEqual([]);
  });

  it('comes back if the server does not take it', async () => {
    const box = outbox();
    answers = [json(404, 'thread_not_found')];
    say(box, 'one', 'two');
    box.release();
    await vi.runAllTimersAsync();
    expect([refused, sent(), box.list]).toEqual([['one'], ['messages one', 'messages two'], []]);
  });

  it('comes back if the call does not take it', () => {
    const box = outbox();
    const [one] = say(box, 'one');
    expect([box.take('other'), box.take(one!)?.text, box.list]).toEqual([undefined, 'one', []]);
  });

  it('stays in the box if there is no channel', () => {
    const box = outbox();
    const none = () => {
      throw new Error('not connected');
    };
    expect(() => box.say('t', 'call', 'one', none)).toThrow();
    expect(box.list).toEqual([]);
  });

  it('does not end a call that may come back', async () => {
    const box = outbox();
    say(box, 'one');
    held = true;
    box.release();
    await vi.advanceTimersByTimeAsync(5000);
    expect([posts, box.waits('t')]).toEqual([[], true]);
    held = false;
    await vi.runAllTimersAsync();
    expect(sent()).toEqual(['messages one']);
  });

  it('does not overtake an earlier one that is on another way', async () => {
    const box = outbox();
    say(box, 'one');
    held = true;
    box.release();
    expect(say(box, 'two')).toEqual([]); // in the next call
    let settled = false;
    void box.settled('t').then(() => (settled = true));
    await vi.advanceTimersByTimeAsync(5000);
    expect(settled).toBe(false);
    held = false;
    await vi.runAllTimersAsync();
    expect([sent(), settled]).toEqual([['messages one', 'messages two'], true]);
    expect(say(box, 'three')).toHaveLength(1);
  });

  it('outlives a reload of the tab, with its key', async () => {
    const ids = say(outbox(), 'one', 'two');
    const box = outbox();
    expect(box.list.map(({ text }) => text)).toEqual(['one', 'two']);
    await vi.runAllTimersAsync();
    expect(posts.map(({ text, key }) => [text, key])).toEqual([['one', `call/${ids[0]}`], ['two', `call/${ids[1]}`]]);
    box.say('t', 'call', 'three', () => undefined);
    box.forget();
    expect(outbox().list).toEqual([]);
  });

  it.each(['{', '7', '[7]', '[{"id":"a","thread":"t","callId":"c"}]', '[{"id":"a","thread":"","callId":"c","text":"x"}]'])('is not read from rubbish: %s', (rubbish) => {
    kept.set('voicebridge-outbox', rubbish);
    expect(outbox().list).toEqual([]);
  });
});
