import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { listThreads, type Thread } from '../src/api/threads';
import { Search } from '../src/page/search.svelte';
import { ThreadList } from '../src/thread/list.svelte';

vi.mock('../src/api/threads', async (original) => ({ ...(await original<object>()), listThreads: vi.fn() }));

beforeEach(() => vi.stubGlobal('addEventListener', () => undefined));
afterEach(() => vi.unstubAllGlobals());

const thread = (id: string, minute: number): Thread => ({ id, title: '', updatedAt: new Date(minute * 60_000).toISOString() });
const updated = (id: string, minute: number) => ({ type: 'thread_updated', data: { thread: { id, title: '', updated_at: new Date(minute * 60_000).toISOString() } } });

describe('the list', () => {
  const answers = (...pages: { threads: Thread[]; next: string }[]) => pages.forEach((page) => vi.mocked(listThreads).mockResolvedValueOnce(page));
  const ids = (list: ThreadList) => list.threads.map(({ id }) => id);

  it('keeps its further pages when it is read again', async () => {
    const list = new ThreadList(() => undefined);
    answers({ threads: [thread('d', 4), thread('c', 3)], next: 'c' }, { threads: [thread('b', 2), thread('a', 1)], next: 'a' });
    await list.load();
    await list.more();
    expect([ids(list), list.next]).toEqual([['d', 'c', 'b', 'a'], 'a']);
    answers({ threads: [thread('b', 5), thread('c', 3)], next: 'c' }); // d was deleted unnoticed
    await list.load();
    expect([ids(list), list.next]).toEqual([['b', 'c', 'a'], 'a']);
    answers({ threads: [thread('b', 5)], next: '' });
    await list.load();
    expect([ids(list), list.next]).toEqual([['b'], '']);
  });

  it('keeps an old thread that was opened in its place', async () => {
    const list = new ThreadList(() => undefined);
    answers({ threads: [thread('d', 4)], next: 'd' }, { threads: [thread('c', 3), thread('b', 2)], next: 'b' });
    await list.load();
    list.put(thread('a', 1));
    await list.more();
    expect(ids(list)).toEqual(['d', 'c', 'b', 'a']);
  });

  it('is not set back by an answer that is older than an event', async () => {
    const list = new ThreadList(() => undefined);
    let answer: (page: { threads: Thread[]; next: string }) => void = () => undefined;
    vi.mocked(listThreads).mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
    const loading = list.load();
    list.take(updated('new', 9));
    list.take(updated('b', 8));
    list.take({ type: 'thread_deleted', data: { thread_id: 'a' } });
    answer({ threads: [thread('a', 2), thread('b', 1)], next: '' });
    await loading;
    expect(ids(list)).toEqual(['new', 'b']);
  });

  it('is not set back by an answer that was overtaken', async () => {
    const list = new ThreadList(() => undefined);
    let answer: (page: { threads: Thread[]; next: string }) => void = () => undefined;
    vi.mocked(listThreads).mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
    const first = list.load();
    answers({ threads: [thread('b', 2), thread('a', 1)], next: '' });
    await list.load();
    answer({ threads: [thread('a', 1)], next: '' });
    await first;
    expect(ids(list)).toEqual(['b', 'a']);
  });
});

describe('a deleted thread', () => {
  it('does not come back with a late answer, only when it is made again', async () => {
    const list = new ThreadList(() => undefined);
    const ids = () => list.threads.map(({ id }) => id);
    list.take(updated('a', 1));
    list.take({ type: 'thread_deleted', data: { thread_id: 'a' } });
    list.put(thread('a', 2)); // a renaming was under way
    expect(ids()).toEqual([]);
    list.take({ ...updated('a', 3), type: 'thread_created' });
    expect(ids()).toEqual(['a']);
    vi.mocked(listThreads).mockResolvedValueOnce({ threads: [thread('a', 3)], next: '' });
    await list.load();
    expect(ids()).toEqual(['a']);
  });
});

describe('live calls', () => {
  it('are told anew on a new connection, which may have missed them', () => {
    const list = new ThreadList(() => undefined);
    list.take({ type: 'call_started', data: { thread_id: 'a', call_id: 'c' } });
    list.take({ type: 'call_started', data: { thread_id: 'b', call_id: 'd' } });
    list.take({ type: 'call_ended', data: { thread_id: 'b', call_id: 'd' } });
    expect(list.calls).toEqual({ a: 'c' });
    list.take({ type: 'connected', data: { owner: 'anna' } });
    list.take({ type: 'call_started', data: { thread_id: 'b', call_id: 'e' } });
    expect(list.calls).toEqual({ b: 'e' });
  });

  it('are not ended by the end of an earlier one', () => {
    const list = new ThreadList(() => undefined);
    const take = (type: string, call_id?: string) => list.take({ type, data: { thread_id: 'a', call_id } });
    take('call_started', 'old');
    take('call_started', 'new');
    take('call_ended', 'old');
    expect(list.calls).toEqual({ a: 'new' });
    take('call_ended', 'new');
    expect(list.calls).toEqual({});
    take('call_started'); // by a server that does not say which
    take('call_ended', 'new');
    expect(list.calls).toEqual({});
  });
});

describe('a search', () => {
  it('has further pages', async () => {
    vi.useFakeTimers();
    const search = new Search(() => undefined);
    vi.mocked(listThreads).mockResolvedValueOnce({ threads: [thread('b', 2)], next: 'b' }).mockResolvedValue({ threads: [thread('a', 1)], next: '' });
    search.type('words');
    await vi.advanceTimersByTimeAsync(1000);
    expect([search.found, search.next]).toEqual([[thread('b', 2)], 'b']);
    await Promise.all([search.more(), search.more()]);
    expect([search.found, search.next]).toEqual([[thread('b', 2), thread('a', 1)], '']);
    vi.useRealTimers();
  });
});
