import { describe, expect, it } from 'vitest';
import type { Caption } from '../src/call/state';
import type { Message, Part, Status } from '../src/thread/message';
import { blocksOf, emptyTranscript, entriesOf, withGrowth, withMessages, withSeq } from '../src/thread/transcript';

function message(id: string, seq: number | undefined, text: string, status: Status = 'completed', itemId?: string): Message {
  const parts: Part[] = text ? [{ kind: 'text', text }] : [];
  return { id, role: 'assistant', parts, metadata: { source: 'voice', status, seq, itemId } };
}

function caption(itemId: string, text: string, role: Caption['role'] = 'assistant'): Caption {
  return { itemId, role, text, failed: false };
}

const ids = (list: { message: Message }[]) => list.map((entry) => entry.message.id);

describe('withMessages', () => {
  it('orders by number, not by arrival, and puts unnumbered ones last', () => {
    let t = withMessages(emptyTranscript, [message('c', 3, 'C'), message('x', undefined, 'X'), message('a', 1, 'A')]);
    t = withMessages(t, [message('b', 2, 'B')]);
    expect(t.messages.map((m) => m.id)).toEqual(['a', 'b', 'c', 'x']);
    // Only the event stream moves the number from which it is resumed.
    expect(t.seq).toBe(0);
  });

  it('replaces a message of the same id, also when it moves', () => {
    let t = withMessages(emptyTranscript, [message('a', 1, 'A'), message('b', 2, 'B')]);
    t = withMessages(t, [message('a', 5, 'A2')]);
    expect(t.messages.map((m) => m.id)).toEqual(['b', 'a']);
    expect(t.messages[1]?.parts).toEqual([{ kind: 'text', text: 'A2' }]);
  });

  it('does not open a closed message again when an older state comes late', () => {
    let t = withMessages(emptyTranscript, [message('a', 1, 'whole', 'interrupted')]);
    t = withMessages(t, [message('a', 1, 'who', 'in_progress')]);
    expect(t.messages[0]?.metadata.status).toBe('interrupted');
  });
});

describe('withGrowth', () => {
  it('shows the text so far until the saved text has caught up', () => {
    let t = withMessages(emptyTranscript, [message('a', 1, 'He', 'in_progress')]);
    t = withGrowth(t, 'a', 'Hello wor');
    expect(entriesOf(t, [])[0]?.text).toBe('Hello wor');
    t = withMessages(t, [message('a', 1, 'Hello', 'in_progress')]);
    expect(entriesOf(t, [])[0]?.text).toBe('Hello wor');
    t = withMessages(t, [message('a', 1, 'Hello world', 'in_progress')]);
    expect(t.growing).toEqual({});
    expect(entriesOf(t, [])[0]?.text).toBe('Hello world');
  });

  it('ignores growth of a closed message and shorter text', () => {
    const t = withMessages(emptyTranscript, [message('a', 1, 'done'), message('b', 2, 'longer', 'in_progress')]);
    expect(withGrowth(t, 'a', 'done and more')).toBe(t);
    expect(withGrowth(t, 'b', 'long')).toBe(t);
  });

  it('keeps growth that comes before its message', () => {
    let t = withGrowth(emptyTranscript, 'a', 'early');
    t = withMessages(t, [message('a', 1, '', 'in_progress')]);
    expect(entriesOf(t, [])[0]?.text).toBe('early');
  });
});

describe('withSeq', () => {
  it('only goes forward', () => {
    const t = withSeq(emptyTranscript, 4);
    expect(t.seq).toBe(4);
    expect(withSeq(t, 3)).toBe(t);
  });
});

describe('entriesOf', () => {
  it('lays captions over their message by item id', () => {
    const t = withMessages(emptyTranscript, [message('m', 1, 'He', 'in_progress', 'item1')]);
    const entries = entriesOf(t, [caption('item1', 'Hello')]);
    expect(ids(entries)).toEqual(['m']);
    expect(entries[0]).toMatchObject({ text: 'Hello', draft: false });
  });

  it('shows captions without a message as drafts at the end', () => {
    const t = withMessages(emptyTranscript, [message('m', 1, 'Hi')]);
    const entries = entriesOf(t, [caption('item2', '', 'user'), caption('item3', 'Yes')]);
    expect(ids(entries)).toEqual(['m', 'item2', 'item3']);
    expect(entries[1]).toMatchObject({ draft: true, message: { role: 'user', metadata: { status: 'in_progress' } } });
  });

  it('prefers the saved text of a closed message to a longer caption', () => {
    const t = withMessages(emptyTranscript, [message('m', 1, 'Heard', 'interrupted', 'item1')]);
    expect(entriesOf(t, [caption('item1', 'Heard and more')])[0]?.text).toBe('Heard');
  });

  it('marks a caption whose transcription failed', () => {
    const failed: Caption = { ...caption('i', '', 'user'), failed: true };
    expect(entriesOf(emptyTranscript, [failed])[0]?.message.metadata.status).toBe('failed');
  });
});

describe('blocksOf', () => {
  const tool: Part = { kind: 'tool', name: 't', toolCallId: '1', state: 'done', input: {}, output: {}, errorText: '' };
  const entry = (status: Status, parts: Part[], text: string) => ({
    key: 'k',
    draft: false,
    text,
    message: { ...message('m', 1, '', status), parts },
  });
  const kinds = (status: Status, parts: Part[], text: string) =>
    blocksOf(entry(status, parts, text)).map((block) => (block.kind === 'text' ? block.text : block.kind));
  const a: Part = { kind: 'text', text: 'a' };
  const b: Part = { kind: 'text', text: 'b' };

  it.each([
    ['keeps the order of a completed message', 'completed', [a, tool, b], 'a\nb', ['a', 'tool', 'b']],
    ['drops empty text of a completed message', 'completed', [{ kind: 'text', text: ' ' }, tool], '', ['tool']],
    ['puts live text behind the tools', 'in_progress', [tool], 'live', ['tool', 'live']],
    ['keeps live text at its place', 'in_progress', [a, tool], 'a and more', ['a and more', 'tool']],
    ['shows no waiting dots beside a tool', 'in_progress', [tool], '', ['tool']],
    ['has a place for the dots of an empty message', 'in_progress', [], '', ['']],
    ['joins the text of an interrupted message', 'interrupted', [a, tool, b], 'a\nb', ['a\nb', 'tool']],
    ['has a place for the words of a failure', 'failed', [], '', ['']],
  ] as [string, Status, Part[], string, string[]][])('%s', (_, status, parts, text, want) => {
    expect(kinds(status, parts, text)).toEqual(want);
  });
});
