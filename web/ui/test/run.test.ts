import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { answerOf, byteLength, cut, defaultLimits, head, Output, readEnding, valueEnding, type Outcome } from '../src/code/outcome';
import { run, startLimitMs, type Runner } from '../src/code/run';

class FakeWorker implements Runner {
  onmessage: Runner['onmessage'] = null;
  onerror: Runner['onerror'] = null;
  onmessageerror: Runner['onmessageerror'] = null;
  ended = 0;
  asked: unknown[] = [];
  postMessage(message: unknown) {
    this.asked.push(message);
  }
  terminate() {
    this.ended++;
  }
  say(...messages: unknown[]) {
    for (const data of messages) this.onmessage?.({ data } as MessageEvent);
  }
}

const limits = { ...defaultLimits, timeoutMs: 1000, maxOutput: 100 };
const end = (more: object = {}) => ({ end: { exit: 'completed', value: '42', error: '', durationMs: 3, ...more } });

async function start(signal = new AbortController().signal) {
  const worker = new FakeWorker();
  const outcome = run(async () => ({ worker, request: { code: 'x' } }), limits, signal);
  await Promise.resolve();
  await Promise.resolve();
  return { worker, outcome };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('run', () => {
  it('collects what a program prints and how it ends', async () => {
    const { worker, outcome } = await start();
    worker.say({ begins: true }, { stdout: 'a' }, { stderr: 'b' }, { stdout: 'c' }, end());
    expect(await outcome).toEqual({ stdout: 'ac', stderr: 'b', value: '42', error: '', durationMs: 3, exit: 'completed' });
    expect([worker.asked, worker.ended]).toEqual([[{ code: 'x' }], 1]);
    worker.say({ stdout: 'late' }); // nobody listens
  });

  it('ends what runs too long, with what it had printed', async () => {
    const { worker, outcome } = await start();
    await vi.advanceTimersByTimeAsync(5000); // until it begins
    worker.say({ begins: true }, { stdout: 'before' });
    await vi.advanceTimersByTimeAsync(999);
    expect(worker.ended).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(await outcome).toMatchObject({ exit: 'timeout', stdout: 'before', durationMs: 1000, error: 'the program ran longer than 1s and was stopped' });
    expect(worker.ended).toBe(1);
  });

  it('ends what never begins', async () => {
    const { worker, outcome } = await start();
    await vi.advanceTimersByTimeAsync(startLimitMs);
    expect(await outcome).toMatchObject({ exit: 'crashed', error: expect.stringContaining('did not begin in time') });
    expect(worker.ended).toBe(1);
  });

  it('ends with the call', async () => {
    const abort = new AbortController();
    const { worker, outcome } = await start(abort.signal);
    worker.say({ begins: true });
    abort.abort();
    expect(await outcome).toMatchObject({ exit: 'cancelled' });
    expect(worker.ended).toBe(1);
    const aborted = await start(abort.signal);
    expect([(await aborted.outcome).exit, aborted.worker.asked]).toEqual(['cancelled', []]);
  });

  it('says why a worker could not be made', async () => {
    const outcome = await run(async () => Promise.reject(new Error('no such file')), limits, new AbortController().signal);
    expect(outcome).toMatchObject({ exit: 'crashed', error: 'its worker could not be started (no such file)', stdout: '' });
  });

  it.each([
    [{ stdout: 'x'.repeat(101) }, 'output_limit', /more than 100 bytes/],
    [{ broken: 'out of luck' }, 'crashed', /out of luck/],
    ['text', 'crashed', /never says/],
    [null, 'crashed', /never says/],
    [{}, 'crashed', /never says/],
    [{ stdout: 7 }, 'crashed', /never says/],
    [{ begins: true }, 'crashed', /never says/], // twice
    [{ end: { exit: 'root' } }, 'crashed', /never says/],
    [end({ durationMs: 'long' }), 'crashed', /never says/],
  ])('takes %j for what it is', async (message, exit, error) => {
    const { worker, outcome } = await start();
    worker.say({ begins: true }, message);
    const got = await outcome;
    expect(got.exit).toBe(exit);
    expect(got.error).toMatch(error);
    expect(worker.ended).toBe(1);
  });

  it('says when a worker dies', async () => {
    const { worker, outcome } = await start();
    worker.onerror?.({ message: 'out of memory' } as ErrorEvent);
    expect(await outcome).toMatchObject({ exit: 'crashed', error: 'its worker ended before the program did (out of memory)' });
    const other = await start();
    other.worker.onmessageerror?.({} as MessageEvent);
    expect((await other.outcome).exit).toBe('crashed');
  });
});

describe('texts', () => {
  it('are cut between characters', () => {
    expect(head('aé€🎈', 10)).toBe('aé€🎈');
    expect([9, 6, 5, 3, 2, 1, 0].map((n) => head('aé€🎈', n))).toEqual(['aé€', 'aé€', 'aé', 'aé', 'a', 'a', '']);
    expect(cut('é'.repeat(5), 4)).toBe('éé\n[cut: 10 bytes in all]');
  });
  it('are collected up to a limit', () => {
    const output = new Output(5);
    expect([output.add('stdout', 'abc'), output.add('stderr', 'éx'), output.add('stdout', 'more')]).toEqual([true, false, false]);
    expect([output.stdout, output.stderr, output.full]).toEqual(['abc', 'é\n[cut: the limit is 5 bytes]', true]);
  });
});

describe('values', () => {
  it('are an ending of their own when they are too long', () => {
    expect(valueEnding('"é"', 4, 1)).toEqual({ exit: 'completed', value: '"é"', error: '', durationMs: 1 });
    expect(valueEnding('"éé"', 4, 1)).toEqual({
      exit: 'output_limit', value: '"\\"é\\n[cut: 6 bytes in all]"', error: 'the value is 6 bytes long, the limit is 4; return less', durationMs: 1,
    });
  });
  it.each([undefined, 5, {}, { exit: 'completed' }, { exit: '__proto__', value: '', error: '', durationMs: 0 }])('%j is no ending', (raw) => {
    expect(readEnding(raw)).toBeNull();
  });
  it('have sane times', () => {
    expect(readEnding(end({ durationMs: -4 }).end)?.durationMs).toBe(0);
    expect(readEnding(end({ durationMs: Infinity }).end)?.durationMs).toBe(0);
  });
});

describe('answers', () => {
  const outcome: Outcome = { stdout: 'o', stderr: '', value: '{"big":12345678901234567890}', durationMs: 5, exit: 'completed', error: '' };
  it('have the form of the server', () => {
    expect(answerOf(outcome)).toBe('{"stdout":"o","stderr":"","value":{"big":12345678901234567890},"durationMs":5,"exit":"completed"}');
    expect(JSON.parse(answerOf({ ...outcome, exit: 'exception', error: 'no', value: 'not JSON' }))).toMatchObject({ error: 'no', value: null });
  });
  it.each(['x', '\u0001', '€'])('fit, also of many %j', (letter) => {
    const much = letter.repeat(60_000);
    const answer = answerOf({ ...outcome, stdout: much, stderr: much, value: JSON.stringify(much) });
    expect(byteLength(answer)).toBeLessThanOrEqual(64 << 10);
    expect(JSON.parse(answer)).toMatchObject({ exit: 'completed', stdout: expect.stringContaining('bytes in all]'), value: expect.stringContaining('bytes in all]') });
  });
});
