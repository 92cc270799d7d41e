import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ThreadList } from '../src/thread/list.svelte';

beforeEach(() => vi.stubGlobal('addEventListener', () => undefined));
afterEach(() => vi.unstubAllGlobals());

describe('live calls', () => {
  it('are forgotten on a new connection, which may have missed their ends', () => {
    const list = new ThreadList(() => undefined);
    list.take({ type: 'call_started', data: { thread_id: 'a', call_id: 'c' } });
    list.take({ type: 'call_started', data: { thread_id: 'b', call_id: 'd' } });
    list.take({ type: 'call_ended', data: { thread_id: 'b', call_id: 'd' } });
    expect(list.calls).toEqual({ a: 'c' });
    list.take({ type: 'connected', data: { owner: 'anna' } });
    expect(list.calls).toEqual({});
  });
});
