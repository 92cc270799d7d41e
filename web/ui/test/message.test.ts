import { describe, expect, it } from 'vitest';
import { cutWords, failureWords, plainText } from '../src/message/failure';
import { readMessage, splitHeard, textOf } from '../src/message/message';
import { language, loadWords } from '../src/words/language.svelte';

await loadWords('de');

describe('readMessage', () => {
  it('says where a tool wants a sign-in', () => {
    const signInOf = (callProviderMetadata: unknown) => {
      const part = readMessage({ id: 'a', role: 'assistant', parts: [{ type: 'dynamic-tool', toolName: 'x', state: 'output-error', callProviderMetadata }] })?.parts[0];
      return part?.kind === 'tool' ? part.signIn : null;
    };
    expect([{ voicebridge: { sign_in: 'post' } }, { voicebridge: { sign_in: {} } }, { voicebridge: [] }, 'x', undefined].map(signInOf)).toEqual(['post', undefined, undefined, undefined, undefined]);
  });
  it.each([null, 5, 'x', [], {}, { id: 'a' }, { id: 'a', role: 'tool' }, { role: 'user' }])('refuses %j', (raw) => {
    expect(readMessage(raw)).toBeNull();
  });

  it('reads all kinds of parts and keeps unknown ones', () => {
    const message = readMessage({
      id: 'm1',
      role: 'assistant',
      parts: [
        { type: 'step-start' },
        { type: 'text', text: 'one' },
        { type: 'tool-create_bar_chart', toolCallId: 't1', state: 'output-available', input: { a: 1 }, output: { b: 2 } },
        { type: 'dynamic-tool', toolName: 'mail__send', toolCallId: 't2', state: 'output-error', errorText: 'no' },
        { type: 'tool-x', toolCallId: 't3', state: 'input-streaming' },
        { type: 'data-trace', data: 1 },
        'garbage',
        { type: 'text', text: 7 },
      ],
      metadata: { source: 'voice', status: 'interrupted', seq: 4, item_id: 'i1', heard_text: '', extra: true },
    });
    expect(message?.parts.map((part) => part.kind)).toEqual(['text', 'tool', 'tool', 'tool', 'unknown', 'text']);
    expect(message?.parts[1]).toMatchObject({ name: 'create_bar_chart', state: 'done', output: { b: 2 } });
    expect(message?.parts[2]).toMatchObject({ name: 'mail__send', state: 'failed', errorText: 'no' });
    expect(message?.parts[3]).toMatchObject({ state: 'running' });
    expect(message?.metadata).toMatchObject({ source: 'voice', status: 'interrupted', seq: 4, itemId: 'i1', heardText: '' });
    expect(message && textOf(message)).toBe('one\n7');
  });

  it.each([
    ['a whole address', 'https://voice.example.org/below/api/threads/t1/images/i1', '/api/threads/t1/images/i1'],
    ['a path', '/api/threads/t1/images/i1', '/api/threads/t1/images/i1'],
    ['a data URL', 'data:image/png;base64,AAAA', 'data:image/png;base64,AAAA'],
    ['an address elsewhere', 'https://example.org/a.png', undefined],
    ['an address that only names ours', 'https://example.org/?/api/threads/t1/images/i1', undefined],
  ])('reads a picture at %s', (_, url, want) => {
    const message = readMessage({ id: 'm', role: 'user', parts: [{ type: 'file', mediaType: 'image/png', url }] });
    expect(message?.parts).toMatchObject([want === undefined ? { kind: 'unknown' } : { kind: 'file', url: want }]);
  });

  it('gives defaults for metadata that is missing or wrong', () => {
    expect(readMessage({ id: 'm', role: 'user', parts: 'no', metadata: { status: 'odd', seq: 'x' } })).toMatchObject({
      parts: [],
      metadata: { source: 'text', status: 'completed', seq: undefined, heardText: undefined },
    });
  });
});

describe('failureWords', () => {
  const said = (text: string, metadata: object) => {
    const message = readMessage({ id: 'm', role: 'assistant', parts: [{ type: 'text', text }], metadata: { status: 'failed', ...metadata } });
    return message && failureWords(message.metadata, textOf(message));
  };
  const error = { kind: 'quota', message: 'No money is left.' };
  it.each([
    ['the reason', 'So far', { error }, 'The answer failed: No money is left.'],
    ['the reason below nothing', '', { error }, 'The answer failed: No money is left.'],
    ['no reason', 'So far', {}, 'The answer failed before it was finished.'],
    ['nothing at all', '', {}, 'The answer failed.'],
    ['a text that is the reason', 'No money is left.', { error, notice: true }, 'The answer failed.'],
    ['the reason below the beginning of an answer that counts no more', 'So far', { error, notice: true }, 'The answer failed: No money is left.'],
    ['a notice without words', '', { error, notice: true }, 'The answer failed: No money is left.'],
    ['odd errors', 'So far', { error: ['x'], notice: 'x' }, 'The answer failed before it was finished.'],
    ['a reason that is no text', '', { error: { message: {} } }, 'The answer failed.'],
  ])('says %s', (_, text, metadata, words) => {
    expect(said(text, metadata)).toBe(words);
  });
});

describe('what the server says in place of an answer', () => {
  const error = { kind: 'quota', message: 'No money is left.' };
  const inGerman = <T>(run: () => T): T => {
    language.current = 'de';
    try {
      return run();
    } finally {
      language.current = 'en';
    }
  };
  it.each([
    ['of a known kind', 'No money is left.', { error, notice: true }, /^Guthaben/],
    ['of an unknown kind', 'Odd.', { error: { kind: 'odd', message: 'Odd.' }, notice: true }, /^Odd\.$/],
    ['about the length', 'The token limit was reached.', { finish_reason: 'length', notice: true }, /^Die Höchstlänge/],
    ['about a refusal', 'The filter stopped it.', { finish_reason: 'filter', refused: true, notice: true }, /Spätere Anfragen/],
    ['nothing: the words are the model’s', 'No money is left.', { finish_reason: 'length' }, /^No money/],
    ['below the beginning of an answer', 'So far', { error, notice: true }, /^So far$/],
  ])('is in the page’s language: %s', (_, text, metadata, want) => {
    const meta = readMessage({ id: 'm', role: 'assistant', parts: [], metadata })?.metadata;
    expect(meta && plainText(meta, text)).toBe(text);
    expect(meta && inGerman(() => plainText(meta, text))).toMatch(want);
  });

  it.each([
    [{ finish_reason: 'length' }, /maximum length/],
    [{ finish_reason: 'filter' }, /content filter/],
    [{ finish_reason: 'filter', refused: true }, /^$/], // the answer says so
    [{ finish_reason: 'length', notice: true }, /^$/],
    [{ finish_reason: 'stop' }, /^$/],
    [{}, /^$/],
  ])('is not missing where an answer was cut off: %j', (metadata, want) => {
    const meta = readMessage({ id: 'm', role: 'assistant', parts: [], metadata })?.metadata;
    expect(meta && cutWords(meta)).toMatch(want);
  });
});

describe('splitHeard', () => {
  const full = 'Apples sold best, then pears, then plums.';
  it.each([
    ['a beginning', full, 'Apples sold best,', 'Apples sold best,', ' then pears, then plums.'],
    ['everything', full, full, full, ''],
    ['nothing', full, '', '', full],
    ['an unknown part', full, undefined, full, ''],
    ['other punctuation', full, 'Apples sold best then', 'Apples sold best then', ' pears, then plums.'],
    ['more words than there are', 'One two', 'uno dos tres', 'uno dos tres', ''],
  ])('splits at %s', (_, text, heard, said, cut) => {
    expect(splitHeard(text, heard)).toEqual({ heard: said, cut });
  });
});
