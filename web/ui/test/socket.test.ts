import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { follow as followSocket, readEvent, retryDelay, type SocketEvent } from '../src/link/socket';

class FakeSocket {
  static all: FakeSocket[] = [];
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  readyState = 1;
  closed = false;
  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  sent: string[] = [];
  close() {
    this.closed = true;
  }
  send(frame: string) {
    this.sent.push(frame);
  }
  say(event: unknown) {
    this.onmessage?.({ data: typeof event === 'string' ? event : JSON.stringify(event) });
  }
  drop() {
    this.readyState = 3;
    this.onclose?.();
  }
}

function follow(beforeRetry?: () => Promise<boolean>) {
  const events: SocketEvent[] = [];
  const states: boolean[] = [];
  let seq = 3;
  const { stop, send, retry } = followSocket({
    url: (after) => `ws://x/?after=${after}`,
    after: () => seq,
    onEvent: (event) => {
      events.push(event);
      seq = Math.max(seq, event.seq ?? 0);
    },
    onState: (online) => states.push(online),
    beforeRetry,
    open: (url) => new FakeSocket(url) as unknown as WebSocket,
  });
  return { events, states, stop, send, retry };
}

const last = () => FakeSocket.all.at(-1) as FakeSocket;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});
afterEach(() => vi.useRealTimers());

describe('follow', () => {
  it('connects again after a break and asks for what it missed', async () => {
    const { events, states, stop } = follow();
    expect(last().url).toBe('ws://x/?after=3');
    last().say({ type: 'connected', data: { server_max_seq: 3 } });
    last().say({ type: 'message', data: {}, seq: 7 });
    last().drop();
    await vi.advanceTimersByTimeAsync(600);
    expect(last().url).toBe('ws://x/?after=7');
    last().say({ type: 'connected', data: {} });
    expect(states).toEqual([true, false, true]);
    expect(events.map((event) => event.type)).toEqual(['connected', 'message', 'connected']);
    stop();
  });

  it('waits longer after each failure and starts over once connected', async () => {
    const { stop } = follow();
    const opened = async (ms: number) => {
      const before = FakeSocket.all.length;
      await vi.advanceTimersByTimeAsync(ms);
      return FakeSocket.all.length - before;
    };
    last().drop();
    expect(await opened(500)).toBe(1);
    last().drop();
    expect(await opened(740)).toBe(0);
    expect(await opened(260)).toBe(1);
    last().say({ type: 'connected' });
    last().drop();
    expect(await opened(500)).toBe(1);
    stop();
  });

  it('sends on the connection that is open', async () => {
    vi.stubGlobal('WebSocket', { OPEN: 1, CLOSED: 3 });
    const { send, stop } = follow();
    expect([send({ type: 'a' }), last().sent]).toEqual([true, ['{"type":"a"}']]);
    last().drop();
    expect(send({ type: 'b' })).toBe(false);
    await vi.advanceTimersByTimeAsync(600);
    expect([send({ type: 'c' }), last().sent]).toEqual([true, ['{"type":"c"}']]);
    stop();
    expect(send({ type: 'd' })).toBe(false);
    vi.unstubAllGlobals();
  });

  it('tries at once when the network comes back, and once', async () => {
    vi.stubGlobal('WebSocket', { OPEN: 1, CLOSED: 3 });
    const page = new EventTarget();
    vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
    vi.stubGlobal('removeEventListener', page.removeEventListener.bind(page));
    const online = () => page.dispatchEvent(new Event('online'));
    let goOn: (yes: boolean) => void = () => undefined;
    const asked = vi.fn(() => new Promise<boolean>((resolve) => (goOn = resolve)));
    const { stop } = follow(asked);
    online(); // connected: nothing to do
    page.dispatchEvent(new Event('offline'));
    online(); // perhaps on another network
    online();
    expect(FakeSocket.all.map(({ closed }) => closed)).toEqual([true, false]);
    last().drop();
    online();
    expect(asked).toHaveBeenCalledTimes(1);
    online(); // while the first attempt is being prepared
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveBeenCalledTimes(1);
    goOn(true);
    await vi.advanceTimersByTimeAsync(0);
    expect(FakeSocket.all).toHaveLength(3);
    last().drop();
    await vi.advanceTimersByTimeAsync(600); // the timer has fired
    online();
    expect(asked).toHaveBeenCalledTimes(2);
    goOn(true);
    await vi.advanceTimersByTimeAsync(0);
    expect(FakeSocket.all).toHaveLength(4);
    stop();
    vi.unstubAllGlobals();
  });

  it('gives up when the thread is gone', async () => {
    const { stop } = follow(async () => false);
    last().drop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    stop();
  });

  it('tries again when asked to, after it gave up', async () => {
    let signedIn = false;
    const { retry, stop } = follow(async () => signedIn);
    retry(); // nothing was given up
    last().drop();
    await vi.advanceTimersByTimeAsync(600);
    expect(FakeSocket.all).toHaveLength(1);
    signedIn = true;
    retry();
    retry();
    expect(FakeSocket.all).toHaveLength(2);
    stop();
    retry();
    expect(FakeSocket.all).toHaveLength(2);
  });

  it('connects anew when a device wakes up, and once', async () => {
    vi.stubGlobal('WebSocket', { OPEN: 1, CLOSED: 3 });
    const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
    vi.stubGlobal('document', page);
    const show = (visibilityState: string) => {
      page.visibilityState = visibilityState;
      page.dispatchEvent(new Event('visibilitychange'));
    };
    const { events, states, stop } = follow();
    last().say({ type: 'connected' });
    show('hidden');
    await vi.advanceTimersByTimeAsync(20_000);
    show('visible'); // the server has not given it up yet
    expect(FakeSocket.all).toHaveLength(1);
    show('hidden');
    await vi.advanceTimersByTimeAsync(40_000);
    show('visible');
    show('visible');
    const [old] = FakeSocket.all;
    expect([FakeSocket.all.length, last().url, old?.closed]).toEqual([2, 'ws://x/?after=3', true]);
    old?.say({ type: 'message', data: {}, seq: 4 });
    old?.drop();
    last().say({ type: 'connected' });
    expect([events.length, states]).toEqual([2, [true, true]]);
    last().drop();
    show('hidden');
    show('visible'); // at once, not after the wait
    await vi.advanceTimersByTimeAsync(0);
    expect(FakeSocket.all).toHaveLength(3);
    stop();
    show('hidden');
    await vi.advanceTimersByTimeAsync(40_000);
    show('visible');
    expect(FakeSocket.all).toHaveLength(3);
    vi.unstubAllGlobals();
  });

  it('ends for good when it is stopped', async () => {
    const { events, stop } = follow();
    stop();
    expect(last().closed).toBe(true);
    last().say({ type: 'message', data: {} });
    last().drop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(events).toEqual([]);
  });

  it('ignores frames that are no events', () => {
    const { events, stop } = follow();
    for (const frame of ['', '{', '[]', '5', '{"data":{}}', '{"type":7}x']) last().say(frame);
    expect(events).toEqual([]);
    stop();
  });
});

describe('readEvent', () => {
  it('reads type, data and number', () => {
    expect(readEvent('{"type":"message","data":{"a":1},"seq":5}')).toEqual({ type: 'message', data: { a: 1 }, seq: 5 });
    expect(readEvent('{"type":"x","data":[]}')).toEqual({ type: 'x', data: {}, seq: undefined });
    expect(readEvent(new ArrayBuffer(2))).toBeNull();
  });
});

describe('retryDelay', () => {
  it('doubles up to a limit', () => {
    expect([0, 1, 2, 3, 10].map((n) => retryDelay(n, 0))).toEqual([500, 1000, 2000, 4000, 15_000]);
    expect(retryDelay(0, 1)).toBe(375);
  });
});
