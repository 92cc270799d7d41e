import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiError, onUnauthorized } from '../src/api/http';
import { comeBack, hangUp, placeCall } from '../src/call/peer';

const asked: string[] = [];
let answer: () => Promise<Response>;

beforeEach(() => {
  asked.length = 0;
  vi.stubGlobal('document', { baseURI: 'https://server/voice/' });
  vi.stubGlobal('fetch', async (url: URL, { signal }: RequestInit) => {
    asked.push(url.href);
    signal?.throwIfAborted();
    return Promise.race([answer(), new Promise<never>((_, reject) => signal?.addEventListener('abort', () => reject(signal?.reason as Error)))]);
  });
});
afterEach(() => vi.unstubAllGlobals());

describe('a call', () => {
  it('is hung up below the path of the page, although its server does not know that', async () => {
    answer = async () => new Response('v=0', { status: 201, headers: { Location: '/v1/realtime/calls/call-a%3Ab', 'X-Thread-Id': 't' } });
    const { location, threadId } = await placeCall('v=0', 't', true, false, '');
    expect([location.href, threadId]).toEqual(['https://server/voice/v1/realtime/calls/call-a%3Ab', 't']);
    await hangUp(location);
    expect(asked).toEqual(['https://server/voice/v1/realtime/calls?thread_id=t&takeover=true', `${location.href}/hangup`]);
  });

  it('does not wait for an answer that is lost on the way', async () => {
    answer = () => new Promise(() => undefined);
    const late = new AbortController();
    const back = comeBack('v=0', new URL('https://server/v1/realtime/calls/c'), late.signal);
    late.abort(new DOMException('late', 'TimeoutError'));
    await expect(back).rejects.toSatisfy((thrown) => thrown instanceof ApiError && thrown.status === 0);
  });

  it('waits for its user to sign in', async () => {
    const late = new AbortController();
    answer = async () => (late.signal.aborted ? new Response('v=0') : new Response('{}', { status: 401 }));
    onUnauthorized(async () => {
      late.abort(new DOMException('late', 'TimeoutError'));
      return true;
    });
    await expect(comeBack('v=0', new URL('https://server/v1/realtime/calls/c'), late.signal)).resolves.toBe('v=0');
  });
});
