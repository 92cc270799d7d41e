// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from 'vitest';
import { onReachability, sendJson } from '../src/api/http';
import { createThread } from '../src/api/threads';

describe('an answer', () => {
  afterEach(() => vi.unstubAllGlobals());

  it.each([
    ['a page of a network that wants a sign-in', 200, 'text/html', 0, false],
    ['a page of a proxy that wants a sign-in', 403, 'text/html; charset=utf-8', 0, false],
    ['an error page of a proxy', 502, 'text/html', 502, true],
    ['an error of the server', 403, 'application/json', 403, true],
  ])('that is %s', async (_, status, type, want, wantReached) => {
    let reached: boolean | undefined;
    onReachability((up) => (reached = up));
    vi.stubGlobal('fetch', async () => new Response('<html>', { status, headers: { 'Content-Type': type } }));
    await expect(createThread()).rejects.toMatchObject({ status: want });
    expect(reached).toBe(wantReached);
  });

  it('that has no content is read', async () => {
    vi.stubGlobal('fetch', async () => new Response(null, { status: 204 }));
    expect(await sendJson('DELETE', 'api/threads/x')).toEqual({});
  });
});
