import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { onUnauthorized } from '../src/api/http';
import { followOwner } from '../src/link/owner';

class FakeSocket {
  static readonly OPEN = 1;
  static readonly CLOSED = 3;
  static all: FakeSocket[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  readyState = 1;
  constructor() {
    FakeSocket.all.push(this);
  }
  close() {
    this.readyState = 3;
  }
  break() {
    this.close();
    this.onclose?.();
  }
}

let status: number;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
  vi.stubGlobal('document', { baseURI: 'http://server/' });
  vi.stubGlobal('WebSocket', FakeSocket);
  vi.stubGlobal('fetch', async (_: URL, { signal }: RequestInit) => {
    if (status === 0) await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal?.reason as Error)));
    return new Response('{}', { status });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('the socket of the owner', () => {
  it('does not ask who has just not signed in', async () => {
    const asked = vi.fn(async () => false);
    onUnauthorized(asked);
    const following = followOwner({ onEvent: () => undefined, onState: () => undefined, onAway: () => undefined });
    status = 401;
    FakeSocket.all[0]?.break();
    await vi.advanceTimersByTimeAsync(20_000);
    expect([FakeSocket.all.length, asked.mock.calls.length]).toEqual([1, 0]);
    following.retry();
    expect(FakeSocket.all).toHaveLength(2);
    following.stop();
  });

  it('asks the user to sign in again when the session has ended, and not for less', async () => {
    const asked = vi.fn(async () => false);
    onUnauthorized(asked);
    const following = followOwner({ onEvent: () => undefined, onState: () => undefined, onAway: () => undefined });
    const breaks = async (answer: number) => {
      status = answer;
      FakeSocket.all.at(-1)?.break();
      await vi.advanceTimersByTimeAsync(20_000);
      return [FakeSocket.all.length, asked.mock.calls.length];
    };
    FakeSocket.all[0]?.onmessage?.({ data: '{"type":"connected"}' });
    expect(await breaks(404)).toEqual([2, 0]); // a proxy without its server
    expect(await breaks(426)).toEqual([3, 0]);
    const late = new AbortController();
    vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late.signal);
    expect(await breaks(0)).toEqual([3, 0]); // lost on the way
    late.abort(new DOMException('late', 'TimeoutError'));
    await vi.advanceTimersByTimeAsync(0);
    vi.restoreAllMocks();
    expect(await breaks(401)).toEqual([4, 1]);
    following.retry();
    expect(FakeSocket.all).toHaveLength(5);
    following.stop();
  });
});
