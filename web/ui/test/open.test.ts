import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OpenThread } from '../src/thread/open.svelte';

class FakeSocket {
  static readonly OPEN = 1;
  static readonly CLOSED = 3;
  static all: FakeSocket[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  readyState = 1;
  readonly after: string | null;
  constructor(url: string) {
    this.after = new URL(url).searchParams.get('after');
    FakeSocket.all.push(this);
  }
  close() {
    this.readyState = 3;
  }
  say(type: string, data: object, seq?: number) {
    this.onmessage?.({ data: JSON.stringify({ type, data, seq }) });
  }
}

const last = () => FakeSocket.all.at(-1)!;
const message = (id: string, seq: number) => ({ id, role: 'user', parts: [{ type: 'text', text: id }], metadata: { seq } });
const json = (body: object, status = 200) => new Response(JSON.stringify(body), { status });
let answer: (url: URL) => Response | Promise<Response>;
let failures: unknown[];

function open() {
  const hooks = { onFailure: () => undefined, onNotRead: (thrown: unknown) => void failures.push(thrown), onThread: () => undefined, onChanged: () => undefined, onState: () => undefined };
  return new OpenThread('t', hooks);
}

const isMessages = (url: URL) => url.pathname.endsWith('/messages');

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
  failures = [];
  answer = (url) => json(isMessages(url) ? { messages: [], next_after: null } : { id: 't', title: '', updated_at: '' });
  vi.stubGlobal('document', { baseURI: 'http://server/' });
  vi.stubGlobal('navigator', { languages: ['en'] });
  vi.stubGlobal('WebSocket', FakeSocket);
  vi.stubGlobal('fetch', async (url: URL) => answer(url));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const until = (want: () => boolean) => vi.waitFor(() => expect(want()).toBe(true), { timeout: 60_000 });
const sockets = (n: number) => until(() => FakeSocket.all.length === n);

describe('an open thread', () => {
  it('keeps its call when an earlier one ends late', async () => {
    const thread = open();
    await sockets(1);
    last().say('connected', { server_max_seq: 0, call_id: 'old' });
    last().say('call_started', { call_id: 'new' });
    last().say('call_ended', { call_id: 'old' });
    expect(thread.liveCall).toBe('new');
    last().say('call_ended', { call_id: 'new' });
    expect(thread.liveCall).toBe('');
    thread.close();
  });

  it('keeps the space before what is added', async () => {
    const thread = open();
    await sockets(1);
    last().say('connected', { server_max_seq: 0 });
    last().say('message', { message: { id: 'm', role: 'assistant', parts: [{ type: 'text', text: 'One. ' }], metadata: { seq: 1, status: 'in_progress' } } }, 1);
    last().say('message_delta', { id: 'm', text: 'Two.' });
    expect(thread.growing.get('m')).toBe('One. Two.');
    thread.close();
  });

  it('asks for what it missed even if its messages are still being read', async () => {
    const thread = open();
    await sockets(1);
    let read: (response: Response) => void = () => undefined;
    answer = (url) => (isMessages(url) ? new Promise((resolve) => (read = resolve)) : json({ id: 't' }));
    last().say('connected', { server_max_seq: 5000 });
    last().close();
    last().onclose?.();
    await sockets(2);
    expect(FakeSocket.all.map(({ after }) => after)).toEqual([null, '5000']);
    last().say('connected', { server_max_seq: 5001 });
    last().say('message', { message: message('b', 5001) }, 5001);
    answer = () => json({ messages: [], next_after: null });
    read(json({ messages: [message('a', 5000)], next_after: null }));
    await until(() => thread.loaded);
    expect(thread.messages.map(({ id }) => id)).toEqual(['a', 'b']);
    thread.close();
  });

  it('is not set back by an answer that is older than an event', async () => {
    const thread = open();
    await sockets(1);
    let read: (response: Response) => void = () => undefined;
    answer = (url) => (isMessages(url) ? new Promise((resolve) => (read = resolve)) : json({ id: 't' }));
    last().say('connected', { server_max_seq: 2 });
    last().say('message', { message: { ...message('a', 1), parts: [{ type: 'text', text: 'newer' }] } }, 3);
    read(json({ messages: [message('a', 1), message('b', 2)], next_after: null }));
    await until(() => thread.loaded);
    expect(thread.messages.map(({ parts }) => parts)).toEqual([[{ kind: 'text', text: 'newer' }], [{ kind: 'text', text: 'b' }]]);
    thread.close();
  });

  it('is read without its socket, which asks for what came since', async () => {
    answer = (url) => json(isMessages(url) ? { messages: [message('a', 7)], next_after: null } : { id: 't' });
    const thread = open();
    await sockets(1);
    await vi.advanceTimersByTimeAsync(3000);
    await until(() => thread.loaded);
    await sockets(2);
    expect(FakeSocket.all.map(({ after, readyState }) => [after, readyState])).toEqual([[null, 3], ['7', 1]]);
    last().say('connected', { server_max_seq: 8 });
    last().say('message', { message: message('b', 8) }, 8);
    expect(thread.messages.map(({ id }) => id)).toEqual(['a', 'b']);
    thread.close();
  });

  it('goes on where no socket gets through', async () => {
    let messages = [message('a', 7)];
    answer = (url) => json(isMessages(url) ? { messages: messages.filter(({ metadata }) => metadata.seq > Number(url.searchParams.get('after'))), next_after: null } : { id: 't' });
    const thread = open();
    await sockets(1);
    await vi.advanceTimersByTimeAsync(3000);
    await until(() => thread.loaded);
    await sockets(2);
    messages = [...messages, message('b', 8)];
    last().close();
    last().onclose?.();
    await sockets(3);
    expect([thread.messages.map(({ id }) => id), last().after]).toEqual([['a', 'b'], '8']);
    thread.close();
  });

  it('is read again when the server wants that', async () => {
    answer = () => new Response('{}', { status: 429, headers: { 'Retry-After': '20' } });
    const thread = open();
    await until(() => failures.length === 1);
    answer = (url) => json(isMessages(url) ? { messages: [], next_after: null } : { id: 't' });
    await vi.advanceTimersByTimeAsync(19_000);
    expect(FakeSocket.all).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1000);
    await sockets(1);
    thread.close();
  });

  it('says so when it was deleted unnoticed', async () => {
    const thread = open();
    await sockets(1);
    last().say('connected', { server_max_seq: 0 });
    await until(() => thread.loaded);
    answer = () => json({ error: { code: 'thread_not_found', message: 'no' } }, 404);
    last().close();
    last().onclose?.();
    await until(() => failures.length === 1);
    expect([thread.gone, FakeSocket.all.length]).toEqual([true, 1]);
    thread.close();
  });

  it('is read once the user has signed in', async () => {
    answer = () => json({ error: { code: 'unauthorized', message: 'no' } }, 401);
    const thread = open();
    await until(() => failures.length === 1);
    expect(FakeSocket.all).toHaveLength(0);
    answer = (url) => json(isMessages(url) ? { messages: [message('a', 1)], next_after: null } : { id: 't' });
    thread.retry();
    await sockets(1);
    last().say('connected', { server_max_seq: 1 });
    await until(() => thread.loaded);
    expect(thread.messages).toHaveLength(1);
    // Its session ends.
    answer = () => json({ error: { code: 'unauthorized', message: 'no' } }, 401);
    last().close();
    last().onclose?.();
    await until(() => failures.length === 2);
    expect(FakeSocket.all).toHaveLength(1);
    thread.retry();
    expect(FakeSocket.all.map(({ after }) => after)).toEqual([null, '1']);
    thread.close();
  });
});
