import { afterEach, describe, expect, it, vi } from 'vitest';
import { ThreadQueue } from '../src/thread/queue.svelte';
import { language, loadWords } from '../src/words/language.svelte';
import { emptyQueue, errorWords, isFull, isWaiting, labelOf, pauseWords, readQueued, reduceQueue, withList, type Queue } from '../src/thread/queue';

await loadWords('de');

const take = (queue: Queue, ...events: [string, object][]) =>
  events.reduce((q, [type, data]) => reduceQueue(q, { type, data: data as Record<string, unknown> }), queue);
const item = (id: string, more: object = {}) => ({ id, message: `text of ${id}`, title: '', queued_at: '2026-01-01T00:00:00Z', state: 'queued', attempts: 0, ...more });
const list = (...ids: string[]): Queue => ({ ...withList(emptyQueue, { messages: ids.map((id) => item(id)), count: ids.length, paused: null }), maxSize: 3 });
const ids = (queue: Queue) => queue.messages.map((m) => m.id);

describe('the connection', () => {
  const config = { enabled: true, max_size: 10, delay_seconds: 0 };
  it('tells the limits, and whether there is something to read', () => {
    expect(take(emptyQueue, ['connected', { queue_length: 0, queue_config: config }])).toMatchObject({ maxSize: 10, enabled: true, stale: false });
    expect(take(emptyQueue, ['connected', { queue_length: 2, queue_config: { ...config, enabled: false } }])).toMatchObject({ enabled: false, stale: true });
  });
  it('forgets what was sent while it was away', () => {
    const queue = take({ ...list('a'), paused: { reason: 'x', message: '' } }, ['connected', { queue_length: 0, queue_config: config }]);
    expect(queue).toMatchObject({ messages: [], paused: null, count: 0, stale: false });
  });
});

describe('events', () => {
  it('say when there is more to read', () => {
    expect(take(list('a'), ['queue_updated', { queue_length: 2, action: 'added', message_id: 'b' }])).toMatchObject({ stale: true, count: 2 });
    expect(take(list('a'), ['queue_updated', { queue_length: 1, action: 'added', message_id: 'a' }]).stale).toBe(false);
    expect(take(list('a', 'b'), ['queue_updated', { queue_length: 4, action: 'removed', message_id: 'a' }]).stale).toBe(true);
    expect(take(list('a'), ['queue_updated', { queue_length: 1, action: 'edited', message_id: 'a' }]).stale).toBe(true);
    expect(take(list(), ['queue_message_sending', { message_id: 'new' }]).stale).toBe(true);
  });
  it('take messages out', () => {
    const removed = take(list('a', 'b'), ['queue_updated', { queue_length: 1, action: 'removed', message_id: 'a' }]);
    expect([ids(removed), removed.count, removed.stale]).toEqual([['b'], 1, false]);
    const cleared = take(list('a', 'b'), ['queue_updated', { queue_length: 0, action: 'cleared', message_id: '' }]);
    expect([ids(cleared), cleared.count, cleared.stale]).toEqual([[], 0, false]);
  });
  it('follow a message until it is sent', () => {
    const sending = take(list('a', 'b'), ['queue_message_sending', { message_id: 'a' }]);
    expect(sending.messages.map((m) => m.state)).toEqual(['sending', 'queued']);
    // The one on its way may count or not.
    expect(take(sending, ['queue_updated', { queue_length: 1, action: 'added', message_id: 'b' }]).stale).toBe(false);
    expect(take(sending, ['queue_updated', { queue_length: 2, action: 'added', message_id: 'b' }]).stale).toBe(false);
    const sent = take(sending, ['queue_message_sent', { message_id: 'a' }]);
    expect([ids(sent), sent.count, sent.stale]).toEqual([['b'], 1, false]);
    expect(take(sent, ['queue_message_sent', { message_id: 'a' }])).toBe(sent);
  });
  it('name and order messages', () => {
    expect(take(list('a'), ['queue_message_titled', { message_id: 'a', title: 'About a' }]).messages[0]?.title).toBe('About a');
    expect(ids(take(list('a', 'b'), ['queue_reordered', { messages: [item('b'), item('a')] }]))).toEqual(['b', 'a']);
    expect(ids(take(list('a', 'b'), ['queue_reordered', { messages: ['b', 'a'] }]))).toEqual(['b', 'a']);
    for (const messages of [['b'], ['a', 'b', 'c'], undefined]) {
      const other = take(list('a', 'b'), ['queue_reordered', { messages }]);
      expect([ids(other), other.stale]).toEqual([['a', 'b'], true]);
    }
  });
  it('stop it and let it go on', () => {
    const paused = take(list('a'), ['queue_paused', { reason: 'rate_limit', message: 'Wait a minute.' }]);
    expect(paused).toMatchObject({ paused: { reason: 'rate_limit', message: 'Wait a minute.' }, stale: true });
    expect(isWaiting(paused)).toBe(false);
    const read = withList(paused, { messages: [item('a', { attempts: 1, error: 'too many requests' })], count: 1, paused: { reason: 'rate_limit', message: '' } });
    expect(read).toMatchObject({ stale: false, messages: [{ attempts: 1, error: 'too many requests' }] });
    expect(take(read, ['queue_message_sending', { message_id: 'a' }]).stale).toBe(true);
    expect(withList(read, { messages: [], count: 0, paused: null }).paused).toBeNull();
  });
  it('about other things change nothing', () => {
    const queue = list('a');
    for (const type of ['message', 'turn_started', 'queue_of_another_kind', '']) expect(take(queue, [type, { message_id: 'a' }])).toBe(queue);
  });
});

describe('limits', () => {
  it('are reached by what the server counts', () => {
    expect(isFull(list('a', 'b'))).toBe(false);
    expect(isFull(list('a', 'b', 'c'))).toBe(true);
    expect(isFull({ ...list('a'), count: 3 })).toBe(true);
    expect(isFull({ ...list('a', 'b', 'c'), maxSize: 0 })).toBe(false);
  });
  it('make what is typed wait behind others', () => {
    expect(isWaiting(list('a'))).toBe(true);
    expect(isWaiting(list())).toBe(false);
    expect(isWaiting({ ...list('a'), enabled: false })).toBe(false);
  });
});

describe('words', () => {
  it('are the title, or the beginning without breaking a letter', () => {
    const queued = readQueued(item('a', { message: `  ${'🎈'.repeat(60)}` }))!;
    expect(labelOf(queued)).toBe(`${'🎈'.repeat(50)}…`);
    expect(labelOf({ ...queued, title: 'Balloons' })).toBe('Balloons');
    expect(labelOf({ ...queued, message: 'two\n lines ' })).toBe('two lines');
  });
  it('say why it stands still', () => {
    expect(pauseWords({ reason: 'rate_limit', message: 'Wait a minute.' })).toBe('Wait a minute.');
    expect(pauseWords({ reason: 'rate_limit', message: '' })).toBe('Sending is paused (rate limit).');
    expect(pauseWords({ reason: '', message: '' })).toBe('Sending is paused.');
    const failed = readQueued(item('a', { error: 'No key.' }))!;
    language.current = 'de';
    expect([errorWords(failed, null), errorWords(failed, { reason: 'auth', message: 'No key.' })]).toEqual(['No key.', expect.stringMatching(/^Der Anbieter/)]);
    expect(pauseWords({ reason: 'auth', message: 'No key.' })).toMatch(/^Der Anbieter/);
    language.current = 'en';
  });
});

describe('hostile answers', () => {
  it.each([null, 5, 'x', {}, { id: {} }, { id: '' }])('%j is no message', (raw) => expect(readQueued(raw)).toBeNull());
  it.each([{}, { messages: 'x' }, { messages: [null, {}, 3], count: 'many', paused: 'yes' }])('%j is an empty list', (raw) => {
    expect(withList(emptyQueue, raw)).toMatchObject({ messages: [], count: 0, paused: null });
  });
  it.each(['connected', 'queue_updated', 'queue_message_sending', 'queue_message_sent', 'queue_message_titled', 'queue_reordered', 'queue_paused'])(
    '%s without data does not throw',
    (type) => {
      for (const data of [{}, { message_id: [] }, { queue_config: 7, queue_length: -3, messages: 9 }]) expect(() => take(list('a'), [type, data])).not.toThrow();
    },
  );
  it('reads odd values as harmless ones', () => {
    expect(readQueued({ id: 7, message: { a: 1 }, state: 'exploding', attempts: -4, scheduled_at: 5 })).toMatchObject({ id: '7', message: '', state: 'queued', attempts: 0 });
  });
});

describe('the queue of an open thread', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('takes texts on a page without HTTPS, each with a key of its own', async () => {
    const keys: unknown[] = [];
    vi.stubGlobal('document', { baseURI: 'http://server/' });
    vi.stubGlobal('crypto', { getRandomValues: crypto.getRandomValues.bind(crypto) }); // as browsers leave it there
    vi.stubGlobal('fetch', async (_: URL, { method, body }: RequestInit) => {
      if (method === 'POST') keys.push((JSON.parse(String(body)) as Record<string, unknown>).idempotency_key);
      return new Response('{"messages":[],"count":0}');
    });
    const queue = new ThreadQueue('t', () => undefined);
    await queue.add('one');
    await queue.add('two');
    expect(keys).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), expect.stringMatching(/^[0-9a-f]{32}$/)]);
    expect(keys[0]).not.toBe(keys[1]);
  });
});
