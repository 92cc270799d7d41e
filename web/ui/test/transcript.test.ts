import { describe, expect, it } from 'vitest';
import type { Caption } from '../src/message/live';
import type { Message, Part, Status } from '../src/message/message';
import { Announcer } from '../src/view/thread/announcer.svelte';
import { blocksOf, draftsOf, entriesOf, foldedOf, merged, shownText, unsavedOf } from '../src/thread/transcript';

function message(id: string, seq: number | undefined, text: string, status: Status = 'completed', itemId?: string): Message {
  const parts: Part[] = text ? [{ kind: 'text', text }] : [];
  return { id, role: 'assistant', parts, metadata: { source: 'voice', status, seq, itemId } };
}

function caption(itemId: string, text: string, role: Caption['role'] = 'assistant'): Caption {
  return { itemId, role, text, failed: false };
}

const ids = (list: Message[]) => list.map(({ id }) => id);

describe('earlier versions', () => {
  const replaced = (id: string, seq: number, status: Status = 'completed') => {
    const known = message(id, seq, id, status);
    return { ...known, metadata: { ...known.metadata, discarded: true } };
  };
  const all = entriesOf([message('a', 1, 'A'), replaced('b', 2), replaced('c', 3), message('d', 4, 'D'), replaced('e', 5, 'failed'), replaced('f', 6)], []);
  const shown = (open: string[]) => {
    const { lines, folds } = foldedOf(all, new Set(open));
    return [lines.map(({ key }) => key).join(''), [...folds].map(([above, { key, count, open }]) => `${above} ${key} ${count} ${open}`)];
  };

  it('are folded above what took their place, but for what failed', () => {
    expect(shown([])).toEqual(['ade', ['d b 2 false', ' f 1 false']]);
  });

  it('can be opened, each for itself', () => {
    expect(shown(['b'])).toEqual(['abcde', ['b b 2 true', ' f 1 false']]);
    expect(shown(['b', 'f'])).toEqual(['abcdef', ['b b 2 true', 'f f 1 true']]);
  });

  it('are none where nothing was replaced', () => {
    const plain = entriesOf([message('a', 1, 'A')], []);
    expect(foldedOf(plain, new Set())).toEqual({ lines: plain, folds: new Map() });
  });
});

describe('merged', () => {
  it('orders by number, not by arrival, and puts unnumbered ones last', () => {
    const some = merged([], [message('c', 3, 'C'), message('x', undefined, 'X'), message('a', 1, 'A')]);
    expect(ids(merged(some, [message('b', 2, 'B')]))).toEqual(['a', 'b', 'c', 'x']);
  });

  it('replaces a message of the same id, also when it moves', () => {
    const list = merged([message('a', 1, 'A'), message('b', 2, 'B')], [message('a', 5, 'A2')]);
    expect(ids(list)).toEqual(['b', 'a']);
    expect(list[1]?.parts).toEqual([{ kind: 'text', text: 'A2' }]);
  });

  it('does not open a closed message again when an older state comes late', () => {
    const list = merged([message('a', 1, 'whole', 'interrupted')], [message('a', 1, 'who', 'in_progress')]);
    expect(list[0]?.metadata.status).toBe('interrupted');
  });

  it('opens a closed message that goes on in another item, and shows no draft for that', () => {
    const rests = (status: Status, ...items: string[]) => {
      const known = message('a', 1, 'Once', status, 'i1');
      return { ...known, metadata: { ...known.metadata, rests: items } };
    };
    const list = merged([message('a', 1, 'Once', 'interrupted', 'i1')], [rests('in_progress', 'i2')]);
    expect(list[0]?.metadata.status).toBe('in_progress');
    expect(draftsOf(list, [caption('i1', 'Once'), caption('i2', 'upon'), caption('i3', 'Next')]).map(({ id }) => id)).toEqual(['i3']);
    const done = merged(list, [rests('completed', 'i2')]);
    expect(merged(done, [rests('in_progress', 'i2')])[0]?.metadata.status).toBe('completed');
  });

  it('keeps a closed message that comes again the same object', () => {
    const known = message('a', 1, 'A');
    expect(merged([known], [message('a', 1, 'A')])[0]).toBe(known);
  });
});

describe('shownText', () => {
  it.each([
    ['what was saved', 'He', 'in_progress', undefined, undefined, 'He'],
    ['what grows', 'He', 'in_progress', 'Hello wor', undefined, 'Hello wor'],
    ['what is heard', 'He', 'in_progress', 'Hello', 'Hello world', 'Hello world'],
    ['the saved text when it has caught up', 'Hello world', 'in_progress', 'Hello', 'Hel', 'Hello world'],
    ['the saved text of a closed message, though a caption is longer', 'Heard', 'interrupted', undefined, 'Heard and more', 'Heard'],
  ] as [string, string, Status, string | undefined, string | undefined, string][])('is %s', (_, saved, status, growing, heard, want) => {
    const shown = shownText(message('a', 1, saved, status), growing, heard === undefined ? undefined : caption('i', heard));
    expect(shown).toBe(want);
  });

});

describe('entriesOf', () => {
  it('shows captions without a message as drafts at the end', () => {
    const messages = [message('m', 1, 'Hi', 'completed', 'item1')];
    const drafts = draftsOf(messages, [caption('item1', 'Hi'), caption('item2', '', 'user'), caption('item3', 'Yes')]);
    const entries = entriesOf(messages, drafts);
    expect(entries.map(({ key }) => key)).toEqual(['m', 'draft-item2', 'draft-item3']);
    expect(entries[1]).toMatchObject({ draft: true, message: { role: 'user', metadata: { status: 'in_progress' } } });
  });

  it('marks a caption whose transcription failed', () => {
    expect(draftsOf([], [{ ...caption('i', '', 'user'), failed: true }])[0]?.metadata.status).toBe('failed');
  });

  it('keeps the lines of messages that do not change', () => {
    const messages = [message('a', 1, 'A'), message('b', 2, 'B')];
    const before = entriesOf(messages, []);
    const after = entriesOf(merged(messages, [message('c', 3, 'C')]), []);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
  });

  it('gives one header to a turn', () => {
    const at = (id: string, minute: number, role: Message['role'] = 'assistant'): Message => {
      const m = message(id, minute, id);
      return { ...m, role, metadata: { ...m.metadata, createdAt: `2026-01-01T10:${String(minute).padStart(2, '0')}:00Z` } };
    };
    const entries = entriesOf([at('a', 1), at('b', 2), at('c', 9), at('d', 9, 'user')], []);
    expect(entries.map(({ follows }) => follows)).toEqual([false, true, false, false]);
  });
});

describe('blocksOf', () => {
  const tool: Part = { kind: 'tool', name: 't', toolCallId: '1', state: 'done', input: {}, output: {}, errorText: '' };
  const kinds = (status: Status, parts: Part[], text: string) =>
    blocksOf({ ...message('m', 1, '', status), parts }, text).map((block) => (block.kind === 'text' ? block.text : block.kind));
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

describe('the announcer', () => {
  it('reads each sentence once, and none over its sound', () => {
    const announcer = new Announcer();
    announcer.nothing();
    const hear = (text: string, status: Status, aloud?: boolean) => {
      announcer.hear(message('a', 1, text, status), text, aloud);
      return announcer.said;
    };
    expect(hear('One. Two', 'in_progress')).toBe('One.');
    expect(hear('One. Two. Three', 'in_progress', true)).toBe('One.');
    expect(hear('One. Two. Three. Four.', 'completed')).toBe('Three. Four.');
  });
});

describe('texts typed into a call', () => {
  const typed = (id: string, thread = 't') => ({ id, thread, text: `words of ${id}` });
  it('are shown in their thread until their messages are', () => {
    const shown = unsavedOf([message('m', 1, 'saved', 'completed', 'a'), message('n', 2, 'other')], [typed('a'), typed('b'), typed('c', 'elsewhere'), typed('d')], 't');
    expect(ids(shown)).toEqual(['b', 'd']);
    expect(shown[0]).toMatchObject({ role: 'user', parts: [{ kind: 'text', text: 'words of b' }], metadata: { source: 'text', status: 'completed' } });
    expect(unsavedOf([message('m', 1, 'x')], [], 't')).toEqual([]);
  });
});
