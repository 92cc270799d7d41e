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
