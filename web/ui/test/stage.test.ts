import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { reduce } from '../src/call/reduce';
import { idleCall } from '../src/call/state';
import { cutCaptions, newestOf, type Caption } from '../src/message/live';
import { Notices } from '../src/page/notices.svelte';

const caption = (itemId: string, text: string, role: Caption['role'] = 'assistant'): Caption => ({ itemId, role, text, failed: false });
const question = caption('q', 'What is new?', 'user');
const answer = caption('a', 'Nothing much is new.');

describe('the stage', () => {
  it.each([
    ['in a word', { a: 10 }, 'Nothing much…'],
    ['before anything was heard', { a: 0 }, '…'],
    ['after its end', {}, 'Nothing much is new.'],
  ])('shows what was heard of an answer that was stopped %s', (_, spoken, want) => {
    const captions = cutCaptions([question, answer], spoken);
    expect(captions.map(({ text }) => text)).toEqual(['What is new?', want]);
    const later = reduce({ ...idleCall, captions }, { type: 'response.output_audio_transcript.delta', item_id: 'a', delta: '!' });
    expect(later.captions[1]?.text).toBe(want === answer.text ? `${want}!` : want);
  });

  const typed = { caption: caption('t', 'And tomorrow?', 'user'), after: 'a' };
  it.each([
    ['the last words', [question, answer], {}, false, null, ['q', 'a']],
    ['what is said, not what waits', [question, answer, caption('b', 'More.')], { a: 3, b: 0 }, true, null, ['q', 'a']],
    ['what is typed while it speaks', [question, answer], { a: 3 }, true, typed, ['q', 'a', 't']],
    ['what is typed before all', [], {}, false, { ...typed, after: '' }, ['t']],
    ['what is typed after what has no words yet', [question, caption('e', '', 'user')], {}, false, { ...typed, after: 'e' }, ['q', 't']],
    ['the answer to what was typed', [question, answer, caption('b', 'Rain.')], { b: 2 }, true, typed, ['t', 'b']],
  ])('shows %s', (_, captions, spoken, playing, typed, want) => {
    expect(newestOf(captions, spoken, playing, typed).map(({ itemId }) => itemId)).toEqual(want);
  });

  it('lights words that can be read before, too', () => {
    const css = readFileSync(new URL('../src/colours.css', import.meta.url), 'utf8');
    const light = (hex: string) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at]!, 0);
    const [unsaid, bg] = ['unsaid', 'bg'].map((name) => new RegExp(`--${name}: light-dark\\((#\\w+), (#\\w+)\\)`).exec(css)!.slice(1).map(light));
    const contrasts = [(bg![0]! + 0.05) / (unsaid![0]! + 0.05), (unsaid![1]! + 0.05) / (bg![1]! + 0.05)];
    expect(Math.min(...contrasts)).toBeGreaterThanOrEqual(4.5);
  });
});

it('equal notices are one, of one cause or of several, but for those with which something can be done', () => {
  vi.useFakeTimers();
  const notices = new Notices();
  notices.error('a', 'Away.');
  notices.error('b', 'Away.');
  notices.error('b', 'Still away.');
  notices.info('deleted', 'Still away.', { label: 'Undo', run: () => undefined });
  notices.error('c', 'Still away.');
  expect(notices.list.map(({ code }) => code)).toEqual(['deleted', 'c']);
  vi.useRealTimers();
});
