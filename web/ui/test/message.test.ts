import { describe, expect, it } from 'vitest';
import { failureWords } from '../src/message/failure';
import { readMessage, splitHeard, textOf } from '../src/message/message';

describe('readMessage', () => {
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
    ['a notice without words', '', { error, notice: true }, 'The answer failed: No money is left.'],
    ['odd errors', 'So far', { error: ['x'], notice: 'x' }, 'The answer failed before it was finished.'],
    ['a reason that is no text', '', { error: { message: {} } }, 'The answer failed.'],
  ])('says %s', (_, text, metadata, words) => {
    expect(said(text, metadata)).toBe(words);
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
