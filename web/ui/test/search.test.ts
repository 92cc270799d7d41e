import { afterEach, describe, expect, it, vi } from 'vitest';
import { uploadImage } from '../src/api/threads';
import { Search } from '../src/page/search.svelte';

/** Requests that hang until their time is up; how long each one has, in seconds. */
function hanging(): { limits: number[]; late: () => void } {
  const limits: number[] = [];
  const ends: AbortController[] = [];
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    limits.push(ms / 1000);
    ends.push(new AbortController());
    return ends.at(-1)!.signal;
  });
  vi.stubGlobal('document', { baseURI: 'http://server/' });
  vi.stubGlobal('fetch', (_: URL, { signal }: RequestInit) => new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error))));
  return { limits, late: () => ends.forEach((end) => end.abort(new DOMException('late', 'TimeoutError'))) };
}

describe('a request that hangs', () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });

  it('ends a search, unless the user has changed it', async () => {
    vi.useFakeTimers();
    const { late } = hanging();
    const failed = vi.fn();
    const search = new Search(failed);
    for (const words of ['one', 'two']) {
      search.type(words);
      await vi.advanceTimersByTimeAsync(200);
    }
    expect([search.looking, failed.mock.calls.length]).toEqual([true, 0]);
    late();
    await vi.advanceTimersByTimeAsync(0);
    expect(search.looking).toBe(false);
    expect(failed.mock.calls).toEqual([[expect.objectContaining({ code: 'network' })]]);
  });

  it('ends an upload, later if the image is large', async () => {
    const { limits, late } = hanging();
    const sent = [1, 10_000_000].map((size) => uploadImage('t', new Blob([new Uint8Array(size)])));
    late();
    for (const upload of sent) await expect(upload).rejects.toMatchObject({ status: 0 });
    expect(limits).toEqual([60.001, 560]);
  });
});
