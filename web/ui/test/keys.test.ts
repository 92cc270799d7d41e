import { expect, it } from 'vitest';
import { ApiError } from '../src/api/http';
import { Keys } from '../src/api/keys';

/** A tab: its storage, and what was sent from it. */
function tab() {
  let stored: string | null = null;
  const storage = { getItem: () => stored, setItem: (_: string, value: string) => void (stored = value) };
  const sent: string[] = [];
  return {
    sent,
    store: (value: string) => void (stored = value),
    stored: () => stored,
    /** The keys of a page that was just loaded. */
    keys: () => new Keys('k', storage),
    /** Sends a text from such a page. */
    send: (text: string, status?: number) =>
      new Keys('k', storage)
        .use(['t', text, []], async (key) => {
          sent.push(key);
          if (status !== undefined) throw new ApiError(status, '', '');
        })
        .catch(() => undefined),
  };
}

it('a text that may have arrived has the same key when its tab is reloaded', async () => {
  const { sent, store, stored, keys, send } = tab();
  void keys().use(['t', 'hangs', []], (key) => new Promise(() => sent.push(key)));
  expect(keys().isUnsure('t', 'hangs', [])).toBe(true);
  await send('hangs', 0);
  await send('hangs', 503);
  await send('other');
  await send('hangs');
  expect([new Set(sent).size, sent[3] === sent[0], stored()]).toEqual([2, false, '{}']);
  await send('hangs', 409);
  expect([new Set(sent).size, stored()]).toEqual([3, '{}']);
  store('["rubbish"]');
  await send('hangs');
  expect(new Set(sent).size).toBe(4);
});

it.each([
  ['that comes back to its box', 't', 'yes', true],
  ['to which something is added', 't', 'Oh yes!', true],
  ['while another conversation is typed in', 'u', '', true],
  ['that is deleted', 't', '', false],
  ['that is written over', 't', 'y', false],
])('a text %s: the same key next time is %3$s', async (_, thread, box, same) => {
  const { sent, keys, send } = tab();
  await send('yes', 0);
  keys().keepOnly(thread, box);
  await send('yes');
  expect(sent[0] === sent[1]).toBe(same);
});
