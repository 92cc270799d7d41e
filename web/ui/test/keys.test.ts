import { expect, it } from 'vitest';
import { ApiError } from '../src/api/http';
import { Keys } from '../src/api/keys';

it('a text that may have arrived has the same key when its tab is reloaded', async () => {
  let stored: string | null = null;
  const storage = { getItem: () => stored, setItem: (_: string, value: string) => void (stored = value) };
  const sent: string[] = [];
  /** Sends a text from a page that was just loaded. */
  const send = (text: string, status?: number) =>
    new Keys('k', storage)
      .use(text, async (key) => {
        sent.push(key);
        if (status !== undefined) throw new ApiError(status, '', '');
      })
      .catch(() => undefined);
  void new Keys('k', storage).use('hangs', (key) => new Promise(() => sent.push(key)));
  expect(new Keys('k', storage).isUnsure('hangs')).toBe(true);
  await send('hangs', 0);
  await send('hangs', 503);
  await send('other');
  await send('hangs');
  expect([new Set(sent).size, sent[3] === sent[0], stored]).toEqual([2, false, '{}']);
  await send('hangs', 409);
  expect([new Set(sent).size, stored]).toEqual([3, '{}']);
  stored = '["rubbish"]';
  await send('hangs');
  expect(new Set(sent).size).toBe(4);
});
