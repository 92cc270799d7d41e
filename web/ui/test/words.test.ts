import { describe, expect, it, vi } from 'vitest';
import { endingWords, isBadEnding } from '../src/words/ending';
import { errorEventWords, httpWords, microphoneError, toolTitle } from '../src/words/say';
import { clock, compact, number, percentage } from '../src/words/format';
import { language, t } from '../src/words/language.svelte';
import { purposeOf } from '../src/words/product';
import { levelOf } from '../src/device/meter';
import { groupByDay } from '../src/thread/list.svelte';

describe('words', () => {
  it.each(['hangup', 'taken_over', 'upstream_lost', 'upstream_closed', 'session_expired', 'shutdown', 'internal_error', 'connection_lost'])(
    'has a sentence for the end by %s',
    (reason) => {
      expect(endingWords(reason)).toMatch(/^[A-Z].*\.$/);
      expect(endingWords(reason)).not.toContain(reason.includes('_') ? reason : '()');
    },
  );

  it('has digits enough for small numbers', () => {
    expect([0, 0.05, 0.0034, -3e-9, 0.129, 1234.567].map((value) => number(value))).toEqual(['0', '0.05', '0.0034', '-0.000000003', '0.13', '1,234.57']);
    expect(number(45.4, 0)).toBe('45');
    expect([number(6.022e23), compact(-9.46e15), compact(9.46e14)]).toEqual(['6.02E23', '-9.5E15', '946T']);
  });

  it('writes shares as people do', () => {
    expect([percentage(37.6), percentage(12.345, 2), percentage(100)]).toEqual(['38%', '12.35%', '100%']);
  });

  it('says of which day a time is, unless it is of today', () => {
    vi.useFakeTimers({ now: new Date(2026, 4, 10, 0, 30) });
    const at = (...date: [number, number, number, number, number]) => clock(new Date(...date).toISOString()).replace(/\s/g, ' ');
    expect([at(2026, 4, 10, 0, 5), at(2026, 4, 9, 23, 59), at(2025, 4, 10, 13, 0), clock('x')]).toEqual(['12:05 AM', 'May 9, 11:59 PM', 'May 10, 2025, 1:00 PM', '']);
    vi.useRealTimers();
  });

  it('says an unknown reason too', () => {
    expect(endingWords('moon_phase')).toBe('The call ended (moon phase).');
    expect([isBadEnding('hangup'), isBadEnding('upstream_lost')]).toEqual([false, true]);
  });

  it('keeps quiet about harmless errors', () => {
    expect(errorEventWords('response_cancel_not_active', 'x')).toBeNull();
    expect(errorEventWords('insufficient_quota', 'x')).toContain('no credit');
    expect(errorEventWords('approval_not_pending', 'x')).toContain('too late');
    expect(errorEventWords('strange', 'It broke.')).toBe('The voice service reported a problem: It broke.');
  });

  it.each([
    [0, '', 'cannot be reached'],
    [401, '', 'access token'],
    [404, 'thread_not_found', 'no longer exists'],
    [404, 'message_not_found', 'context was reset'],
    [429, '', 'Too many'],
    [502, 'model_not_found', '(model_not_found): refused'],
    [502, 'invalid_api_key', 'API key.'],
    [429, 'budget_exceeded', 'budget of this server is used up'],
    [429, 'too_many_threads', 'Delete some'],
    [503, '', 'not ready'],
    [503, 'storage_unavailable', 'database'],
    [418, '', 'refused'],
    [403, 'origin_not_allowed', 'from this page. refused'],
    [413, '', 'refused'],
    [502, '', 'not ready'],
    [504, '', 'not ready'],
  ])('explains HTTP %i %s', (status, code, part) => {
    expect(httpWords(status, code, 'refused')).toContain(part);
  });

  it('says once that the service refused a call', () => {
    expect(httpWords(502, 'odd', 'The upstream refused the call (400): No.')).toBe('The voice service refused the call (odd): No.');
    expect(httpWords(502, 'upstream_unreachable', 'The upstream cannot be reached.')).toMatch(/^The voice service cannot be reached, .* should\.$/);
  });

  it.each([[40, '40 seconds'], [61.2, '62 seconds'], [890, '15 minutes']])('says how long to wait: %d s', (seconds, want) => {
    expect(httpWords(429, '', '', seconds)).toBe(`Too many requests. Try again in ${want}.`);
  });

  it('knows that a proxy says nothing about a body that is too large', () => {
    expect(httpWords(413, '', '')).toContain('larger');
  });

  it.each(['insecure', 'NotAllowedError', 'NotFoundError', 'NotReadableError', 'Odd'])('explains a microphone that is %s', (name) => {
    const error = microphoneError(name);
    expect(error.code).toMatch(/^mic_/);
    expect(error.message.length).toBeGreaterThan(20);
  });

  it('names the server’s own tools in German, and others as they are', async () => {
    await language.choose('de');
    expect(['webSearch', 'ask_agent', 'mail__send'].map(toolTitle)).toEqual(['Websuche', 'Fragt im Hintergrund nach', 'Mail: send']);
    const purpose = (name: string, server = '') => purposeOf({ name, description: 'Does it.\nWell.', server });
    expect([purpose('webContent'), purpose('webContent', 'mail'), purpose('mine')]).toEqual(['Liest Webseiten: ihren Text, ohne Menüs und Werbung.', 'Does it.', 'Does it.']);
    const own = Object.keys(t().tool.titles).filter((name) => !['look', 'changeBrowserTheme'].includes(name)); // of the page, which lists none
    expect(own.filter((name) => purpose(name) === 'Does it.')).toEqual([]);
    await language.choose('en');
    expect(toolTitle('ask_agent')).toBe('Asking in the background');
  });

  it.each([
    ['create_bar_chart', 'Create bar chart'],
    ['createTable', 'Create table'],
    ['mail__send_now', 'Mail: send now'],
    ['python-execution', 'Python execution'],
    ['', 'Tool'],
  ])('names the tool %s', (name, title) => {
    expect(toolTitle(name)).toBe(title);
  });
});

describe('levelOf', () => {
  it('maps silence to 0 and speech into the middle', () => {
    expect([levelOf(0), levelOf(1e-6), levelOf(1)]).toEqual([0, 0, 1]);
    expect(levelOf(0.02)).toBeGreaterThan(0.4);
    expect(levelOf(0.02)).toBeLessThan(0.8);
  });
});

describe('groupByDay', () => {
  it('groups by calendar day', () => {
    const now = new Date(2026, 4, 10, 0, 30);
    const at = (hours: number) => new Date(now.getTime() - hours * 3_600_000).toISOString();
    const threads = [0, 1, 30, 200, 900].map((hours) => ({ id: String(hours), title: '', updatedAt: at(hours) }));
    const groups = groupByDay([...threads, { id: 'odd', title: '', updatedAt: 'x' }], now);
    expect(groups.map((group) => [group.name, group.threads.map((thread) => thread.id)])).toEqual([
      ['Today', ['0', 'odd']],
      ['Yesterday', ['1']],
      ['Last 7 days', ['30']],
      ['Earlier', ['200', '900']],
    ]);
  });
});
