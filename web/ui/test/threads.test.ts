import { afterEach, describe, expect, it, vi } from 'vitest';
import { ApiError } from '../src/api/http';
import { sentKeys } from '../src/api/keys';
import { getThread, postMessage, uploadImage } from '../src/api/threads';

describe('a text that is sent', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('has the same images again in the same thread', async () => {
    let uploads = 0;
    vi.stubGlobal('document', { baseURI: 'http://server/' });
    vi.stubGlobal('fetch', async () => new Response(JSON.stringify({ image_id: `i${++uploads}` })));
    const [one, other] = [new Blob(['x']), new Blob(['x'])];
    expect([await uploadImage('t', one), await uploadImage('t', one), await uploadImage('t', other), await uploadImage('u', one)]).toEqual(['i1', 'i1', 'i2', 'i3']);
  });

  it('has the same key again only if it may have arrived', async () => {
    const keys: unknown[] = [];
    let answer = (): Response => new Response('');
    vi.stubGlobal('document', { baseURI: 'http://server/' });
    vi.stubGlobal('fetch', async (_: URL, { body }: RequestInit) => {
      keys.push((JSON.parse(String(body)) as Record<string, unknown>).idempotency_key);
      return answer();
    });
    const isUnsure = (text: string, thread = 't') => sentKeys.isUnsure(thread, text, []);
    const say = (text: string, thread = 't') => postMessage(thread, text).catch(() => undefined);
    await say('one');
    await say('one');
    answer = () => {
      throw new TypeError('network');
    };
    await say('two');
    expect([isUnsure('one'), isUnsure('two'), isUnsure('two', 'u')]).toEqual([false, true, false]);
    answer = () => new Response('{}', { status: 503 });
    await say('two');
    answer = () => new Response('{}', { status: 409 });
    await say('two');
    expect(isUnsure('two')).toBe(false);
    await say('two');
    await say('two', 'u');
    const [first, second, lost, unavailable, refused, anew, elsewhere] = keys;
    expect([unavailable, refused]).toEqual([lost, lost]);
    expect(new Set([first, second, lost, anew, elsewhere]).size).toBe(5);
  });

  it('is not sent if the answer breaks off', async () => {
    const broken = () => new ReadableStream({ pull: (stream) => stream.error(new TypeError('network error')) });
    vi.stubGlobal('document', { baseURI: 'http://server/' });
    vi.stubGlobal('fetch', async () => new Response(broken()));
    const lost = { status: 0, code: 'network' };
    await expect(getThread('t')).rejects.toMatchObject(lost);
    await expect(uploadImage('t', new Blob(['x']))).rejects.toMatchObject(lost);
    await expect(getThread('t')).rejects.toBeInstanceOf(ApiError);
  });
});
