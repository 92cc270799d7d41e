// @vitest-environment jsdom
import { flushSync, mount, unmount } from 'svelte';
import { afterEach, expect, it, vi } from 'vitest';
import ToolSignIn from '../src/view/tools/ToolSignIn.svelte';

vi.mock('../src/page/app.svelte', () => ({ useApp: () => ({ notices: { failure: () => undefined } }) }));
afterEach(() => void vi.unstubAllGlobals());

const server = (state: string, auth = 'oauth') => ({ servers: [{ name: 'post', state, auth }] });

it.each([
  [server('sign_in'), 'You have to sign in to post first. Sign in'],
  [server('connected'), 'You are signed in to post. Ask again, and its tools can be used.'],
  [server('failed'), 'post: Not connected'],
  // It was taken out of the settings, or no longer wants a sign-in: what the model was told remains.
  [{ servers: [] }, 'why'],
  [server('connected', ''), 'why'],
])('a card says how its server is: %j', async (answer, want) => {
  vi.stubGlobal('fetch', async () => new Response(JSON.stringify(answer), { headers: { 'Content-Type': 'application/json' } }));
  const target = document.createElement('div');
  const view = mount(ToolSignIn, { target, props: { server: 'post', problem: 'why' } });
  await vi.waitFor(() => {
    flushSync();
    expect(target.textContent?.trim().replace(/\s+/g, ' ')).toBe(want);
  });
  await unmount(view);
});
