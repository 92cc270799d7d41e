import type { Caption } from '../message/live';
import { textOf, type Message, type Part } from '../message/message';

/**
 * Puts messages in their place; one with a known id replaces the old one. A message that is closed
 * and unchanged stays the same object, so that it is not drawn again.
 */
export function merged(known: Message[], incoming: Message[]): Message[] {
  if (incoming.length === 0) return known;
  const byId = new Map(known.map((message) => [message.id, message]));
  for (const message of incoming) {
    const old = byId.get(message.id);
    // Two channels bring the same message; a closed one never opens again, unless it goes on.
    if (old && isClosed(old) && !isClosed(message) && restsOf(message) <= restsOf(old)) continue;
    if (!old || !same(old, message)) byId.set(message.id, message);
  }
  return inOrder([...byId.values()]);
}

function same(one: Message, other: Message): boolean {
  return isClosed(one) && JSON.stringify(one) === JSON.stringify(other);
}

const restsOf = ({ metadata }: Message) => metadata.rests?.length ?? 0;

/** Whether nothing more will be said in a message. */
export function isClosed(message: Message): boolean {
  return message.metadata.status !== 'in_progress';
}

// Messages without a number keep their arrival order at the end.
function inOrder(messages: Message[]): Message[] {
  return messages
    .map((message, at) => ({ message, at, seq: message.metadata.seq ?? Infinity }))
    .sort((a, b) => (a.seq === b.seq ? a.at - b.at : a.seq - b.seq))
    .map(({ message }) => message);
}

/** One line of the transcript. */
export interface Entry {
  key: string;
  message: Message;
  /** It has no saved message yet. */
  draft: boolean;
  /** The message before it is from the same side and about the same time: it needs no header. */
  follows: boolean;
}

const entries = new WeakMap<Message, Entry>();

const sameTurnMs = 2 * 60_000;

function follows(before: Message | undefined, message: Message): boolean {
  if (!before || before.role !== message.role || before.metadata.callId !== message.metadata.callId) return false;
  const gap = Date.parse(message.metadata.createdAt ?? '') - Date.parse(before.metadata.createdAt ?? '');
  return before.metadata.source === message.metadata.source && !(Math.abs(gap) > sameTurnMs);
}

/** The lines of the messages. A message keeps its line as long as it does not change. */
export function entriesOf(messages: Message[], drafts: Message[]): Entry[] {
  let before: Message | undefined;
  const line = (message: Message, draft: boolean): Entry => {
    const behind = follows(before, message);
    before = message;
    const known = entries.get(message);
    if (known && known.follows === behind) return known;
    const entry = { key: draft ? `draft-${message.id}` : message.id, message, draft, follows: behind };
    entries.set(message, entry);
    return entry;
  };
  return [...messages.map((m) => line(m, false)), ...drafts.map((m) => line(m, true))];
}

/** Messages that the model no longer reads, because another version has taken their place. */
export interface Fold {
  /** The id of the first. */
  key: string;
  count: number;
  open: boolean;
}

/** Another version has taken the place of a message. A failed one says so itself. */
export function isReplaced({ metadata }: Message): boolean {
  return metadata.discarded === true && metadata.status !== 'failed';
}

/** The lines to show: earlier versions only where they are opened. A fold is named by the line it stands above; the last may stand above none: ''. */
export function foldedOf(all: Entry[], open: ReadonlySet<string>): { lines: Entry[]; folds: Map<string, Fold> } {
  const folds = new Map<string, Fold>();
  let fold: Fold | undefined;
  if (!all.some(({ message }) => isReplaced(message))) return { lines: all, folds };
  const lines = all.filter(({ key, message }) => {
    if (!isReplaced(message)) {
      if (fold && !fold.open) folds.set(key, fold);
      fold = undefined;
      return true;
    }
    if (!fold) {
      fold = { key: message.id, count: 0, open: open.has(message.id) };
      if (fold.open) folds.set(key, fold);
    }
    fold.count++;
    return fold.open;
  });
  if (fold && !fold.open) folds.set('', fold);
  return { lines, folds };
}

/** The captions that have no message yet, as messages without text. */
export function draftsOf(messages: Message[], captions: Pick<Caption, 'itemId' | 'role' | 'failed'>[]): Message[] {
  if (captions.length === 0) return [];
  const shown = new Set(messages.flatMap((m) => [m.id, m.metadata.itemId ?? m.id, ...(m.metadata.rests ?? [])]));
  return captions
    .filter(({ itemId }) => !shown.has(itemId))
    .map(({ itemId, role, failed }) => ({ id: itemId, role, parts: [], metadata: { source: 'voice', status: failed ? 'failed' : 'in_progress', itemId } }));
}

/** The texts typed into a call that have no message yet, as messages. */
export function unsavedOf(messages: Message[], texts: { id: string; thread: string; text: string }[], thread: string): Message[] {
  if (texts.length === 0) return [];
  const saved = new Set(messages.map((m) => m.metadata.itemId));
  return texts
    .filter((one) => one.thread === thread && !saved.has(one.id))
    .map(({ id, text }) => ({ id, role: 'user', parts: [{ kind: 'text', text }], metadata: { source: 'text', status: 'completed', itemId: id } }));
}

/** The text of a message to show: the longest of what was saved and what is being said. */
export function shownText(message: Message, growing: string | undefined, caption: Caption | undefined): string {
  const saved = textOf(message);
  if (isClosed(message)) return saved;
  return [growing ?? '', caption?.text ?? ''].reduce((a, b) => (b.length > a.length ? b : a), saved);
}

/** A piece of a message in the order in which it is shown. */
export type Block = { kind: 'text'; text: string } | Exclude<Part, { kind: 'text' }>;

/**
 * The pieces of a message. Text that grows or was cut off is one piece, where
 * the message has its first text or else at the end: an answer follows its tools.
 */
export function blocksOf(message: Message, text: string): Block[] {
  const { status } = message.metadata;
  if (status === 'completed') {
    return message.parts.filter((part) => part.kind !== 'text' || part.text.trim() !== '');
  }
  const first = message.parts.findIndex((part) => part.kind === 'text' && part.text !== '');
  const blocks = message.parts.flatMap((part, at): Block[] => {
    if (part.kind !== 'text') return [part];
    return at === first ? [{ kind: 'text', text }] : [];
  });
  const needsWords = text !== '' || status !== 'in_progress' || blocks.length === 0;
  return first < 0 && needsWords ? [...blocks, { kind: 'text', text }] : blocks;
}
