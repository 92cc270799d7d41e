// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Call, type Hooks } from '../src/call/call.svelte';
import { App } from '../src/page/app.svelte';

class FakeSocket {
  static readonly OPEN = 1;
  static all: FakeSocket[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  readyState = 1;
  constructor() {
    FakeSocket.all.push(this);
  }
  close() {}
  say(type: string, data: object) {
    this.onmessage?.({ data: JSON.stringify({ type, data }) });
  }
}

describe('a text whose fate is unknown', () => {
  let posts: [string, unknown][];
  let answer: (path: string) => Response;
  const lost = () => {
    throw new TypeError('network');
  };

  beforeEach(() => {
    posts = [];
    FakeSocket.all = [];
    answer = () => new Response('{}');
    vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined }));
    vi.stubGlobal('WebSocket', FakeSocket);
    vi.stubGlobal('fetch', async (url: URL, { method, body }: RequestInit) => {
      const path = url.pathname.split('/').at(-1) ?? '';
      if (method !== 'POST') return new Response('{}');
      posts.push([path, (JSON.parse(String(body)) as Record<string, unknown>).idempotency_key]);
      return answer(path);
    });
  });
  afterEach(() => vi.unstubAllGlobals());

  async function opened() {
    const app = new App();
    app.select('t');
    await vi.waitFor(() => expect(FakeSocket.all).toHaveLength(1), { timeout: 60_000 });
    const socket = FakeSocket.all[0]!;
    socket.say('connected', { server_max_seq: 0 });
    return { app, socket, say: (text: string) => app.sendText(text, [], () => undefined) };
  }

  it('is not said twice, though it may be what the assistant is answering', async () => {
    const { socket, say } = await opened();
    answer = lost;
    expect(await say('one')).toBe(false);
    socket.say('turn_started', {});
    answer = () => new Response('');
    expect(await say('one')).toBe(true);
    expect(await say('two')).toBe(true);
    expect(posts.map(([path]) => path)).toEqual(['messages', 'messages', 'queue']);
    expect(posts[1]?.[1]).toBe(posts[0]?.[1]);
  });

  it('does not leave the queue', async () => {
    const { socket, say } = await opened();
    socket.say('turn_started', {});
    answer = lost;
    expect(await say('one')).toBe(false);
    socket.say('turn_finished', {});
    answer = () => new Response('{}');
    expect(await say('one')).toBe(true);
    expect(posts.map(([path]) => path)).toEqual(['queue', 'queue']);
    expect(posts[1]?.[1]).toBe(posts[0]?.[1]);
  });
});

describe('what the page reads unasked', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('is no longer said to be missing once it could be read', async () => {
    let status = 503;
    vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined }));
    vi.stubGlobal('fetch', async () => new Response('{}', { status }));
    const app = new App();
    await app.refresh();
    expect(app.notices.list.map(({ code }) => code)).toEqual(['not_read']);
    status = 200;
    await app.refresh();
    expect(app.notices.list).toEqual([]);
  });
});

describe('the thread of a call in which nothing was said', () => {
  let said: object[];

  beforeEach(() => {
    said = [];
    vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined }));
    vi.stubGlobal('WebSocket', FakeSocket);
    vi.stubGlobal('fetch', async (url: URL) => {
      const thread = (id = '') => ({ id, title: '', updated_at: '2026-01-01T00:00:00Z' });
      return Response.json(url.pathname.endsWith('/api/threads') ? { threads: ['new', 'old'].map((id) => thread(id)) } : { ...thread(url.pathname.split('/').at(-1)), messages: said });
    });
    vi.spyOn(Call.prototype, 'start').mockImplementation(async () => undefined);
  });
  afterEach(() => (vi.unstubAllGlobals(), vi.restoreAllMocks()));

  it.each([
    ['goes when it is left', '', () => undefined, false, ['old']],
    ['stays if there was something to hear', '', () => undefined, true, ['new', 'old']],
    ['stays if it has a message', '', () => (said = [{ id: 'm', role: 'user', parts: [] }]), false, ['new', 'old']],
    ['stays if it has a draft', '', (app: App) => app.drafts.write('new', 'And'), false, ['new', 'old']],
    ['stays if it was there before', 'new', () => undefined, false, ['new', 'old']],
  ])('%s', async (_, from, change, spoken, want) => {
    const app = new App();
    await app.refresh();
    app.select(from);
    app.talk(from);
    const hooks = (app.call as unknown as { hooks: Hooks }).hooks;
    await vi.waitFor(() => expect(Call.prototype.start).toHaveBeenCalled());
    hooks.onPlaced('new');
    change(app);
    hooks.onEnded(spoken);
    await app.refresh();
    expect(app.threads.threads).toHaveLength(2);
    app.select('old');
    for (let i = 0; i < 20; i++) await Promise.resolve();
    await app.refresh();
    expect(app.threads.threads.map(({ id }) => id).toSorted()).toEqual(want);
  });
});

describe('a call that would be recorded', () => {
  const getUserMedia = vi.fn(() => Promise.reject(new DOMException('', 'NotFoundError')));
  let recording: unknown;
  let asked: string[];

  beforeEach(() => {
    getUserMedia.mockClear();
    localStorage.clear();
    [recording, asked] = [true, []];
    vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined }));
    vi.stubGlobal('WebSocket', FakeSocket);
    vi.stubGlobal('isSecureContext', true);
    vi.stubGlobal('AudioContext', class { resume = async () => undefined; close = async () => undefined; });
    Object.defineProperty(navigator, 'mediaDevices', { configurable: true, value: { getUserMedia, addEventListener: () => undefined } });
    vi.stubGlobal('fetch', async (url: URL) => {
      const path = url.pathname.split('/').slice(-2).join('/');
      asked.push(path);
      if (path === 'assistants/ada') return recording === 'away' ? Response.error() : Response.json({ id: 'ada', name: 'Ada', recording });
      if (path === 'threads/t') return Response.json({ id: 't', title: 'T', updated_at: '2026-01-01T00:00:00Z', assistant_id: 'ada' });
      return Response.json({});
    });
  });
  afterEach(() => vi.unstubAllGlobals());

  const opens = () => vi.waitFor(() => expect(getUserMedia).toHaveBeenCalledTimes(1));
  const settled = async (app: App) => {
    await vi.waitFor(() => expect(asked).toContain('assistants/ada'));
    for (let i = 0; i < 20; i++) await Promise.resolve();
    expect([getUserMedia.mock.calls.length, app.call.active]).toEqual([0, false]);
  };

  it('asks before it opens the microphone, once for each assistant', async () => {
    const app = new App();
    app.talk('t');
    await vi.waitFor(() => expect(app.question?.title).toMatch('Ada'));
    await settled(app);
    app.question?.run();
    await opens();
    expect(app.settings.current.agreed).toEqual(['ada']);
    getUserMedia.mockClear();
    new App().talk('t'); // another page of this browser
    await opens();
  });

  it('asks whoever moves one here, too', async () => {
    const app = new App();
    app.select('t');
    app.threads.calls = { t: 'c' };
    app.takeOver();
    await vi.waitFor(() => expect(app.question?.title).toMatch('Ada'));
    await settled(app);
  });

  it('is not begun while nobody knows whether it would be', async () => {
    recording = 'away';
    const app = new App();
    app.talk('t');
    await settled(app);
    expect(app.question).toBeNull();
  });

  it.each([
    ['the assistant records none', () => (recording = undefined), {}],
    ['the user has chosen to record', () => undefined, { record: true }],
  ])('needs no question when %s', async (_, change, settings) => {
    change();
    const app = new App();
    app.settings.set(settings);
    app.talk('t');
    await opens();
    expect(app.question).toBeNull();
  });
});
