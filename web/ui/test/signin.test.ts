// @vitest-environment jsdom
import { afterEach, expect, it, vi } from 'vitest';
import { sendJson } from '../src/api/http';
import { SignIn } from '../src/page/signin.svelte';

afterEach(() => vi.unstubAllGlobals());

/** Requests that are answered when the test says so. */
function answers(): Array<(status: number) => void> {
  const waiting: Array<(status: number) => void> = [];
  vi.stubGlobal('fetch', () => new Promise((resolve) => waiting.push((status) => resolve(new Response('{}', { status, headers: { 'Content-Type': 'application/json' } })))));
  return waiting;
}

it('is asked for once by requests that began before the answer', async () => {
  const signIn = new SignIn(() => undefined);
  const waiting = answers();
  const [first, second] = [sendJson('GET', 'api/config'), sendJson('GET', 'api/threads')];
  waiting[0]?.(401);
  await vi.waitUntil(() => signIn.asking);
  signIn.cancel();
  await expect(first).rejects.toMatchObject({ status: 401 });
  waiting[1]?.(401);
  await expect(second).rejects.toMatchObject({ status: 401 });
  expect(signIn.asking).toBe(false);

  const third = sendJson('GET', 'api/threads');
  waiting[2]?.(401);
  await vi.waitUntil(() => signIn.asking);
  const fourth = sendJson('GET', 'api/usage');
  const accepted = signIn.submit('token');
  waiting[4]?.(200);
  expect(await accepted).toBe(true);
  waiting[3]?.(401); // the server had not seen the session yet
  await vi.waitUntil(() => waiting.length === 7);
  waiting[5]?.(200);
  waiting[6]?.(200);
  expect([await third, await fourth]).toEqual([{}, {}]);
});
