import type { Caption } from '../call/state';
import { textOf, type Message, type Part } from './message';

/** The messages of one thread in their order, with the text that is still growing. */
export interface Transcript {
  messages: Message[];
  /** How far the event stream has been read: where to resume it. */
  seq: number;
  /** Text so far of messages in progress, by message id. */
  growing: Record<string, string>;
}

export const emptyTranscript: Transcript = { messages: [], seq: 0, growing: {} };

/** Puts messages in their place; one with a known id replaces the old one. */
export function withMessages(transcript: Transcript, incoming: Message[]): Transcript {
  const byId = new Map(transcript.messages.map((message) => [message.id, message]));
  const growing = { ...transcript.growing };
  for (const message of incoming) {
    const known = byId.get(message.id);
    // Two channels bring the same message; a closed one never opens again.
    if (known && isClosed(known) && !isClosed(message)) continue;
    byId.set(message.id, message);
    if (isClosed(message) || textOf(message).length >= (growing[message.id]?.length ?? 0)) delete growing[message.id];
  }
  return { messages: inOrder([...byId.values()]), seq: transcript.seq, growing };
}

/** Takes the text so far of a message in progress. */
export function withGrowth(transcript: Transcript, id: string, text: string): Transcript {
  const message = transcript.messages.find((m) => m.id === id);
  if (message && (isClosed(message) || textOf(message).length >= text.length)) return transcript;
  return { ...transcript, growing: { ...transcript.growing, [id]: text } };
}

/** Notes how far the event stream has been read. */
export function withSeq(transcript: Transcript, seq: number): Transcript {
  return seq > transcript.seq ? { ...transcript, seq } : transcript;
}

function isClosed(message: Message): boolean {
  return message.metadata.status !== 'in_progress';
}

// Messages without a number keep their arrival order at the end.
function inOrder(messages: Message[]): Message[] {
  return messages
    .map((message, at) => ({ message, at, seq: message.metadata.seq ?? Infinity }))
    .sort((a, b) => (a.seq === b.seq ? a.at - b.at : a.seq - b.seq))
    .map(({ message }) => message);
}

/** One line of the transcript as it is shown. */
export interface Entry {
  key: string;
  message: Message;
  /** The text to show: the longest of what was saved and what is being heard. */
  text: string;
  /** No saved message stands behind it yet. */
  draft: boolean;
}

/**
 * The lines to show: saved messages with live text laid over those in progress,
 * then captions that no message stands for yet.
 */
export function entriesOf(transcript: Transcript, captions: Caption[]): Entry[] {
  const byItem = new Map(captions.map((caption) => [caption.itemId, caption]));
  const shown = new Set<string>();
  const entries: Entry[] = transcript.messages.map((message) => {
    const item = message.metadata.itemId ?? message.id;
    shown.add(item).add(message.id);
    const saved = textOf(message);
    const live = [transcript.growing[message.id] ?? '', byItem.get(item)?.text ?? ''];
    const text = isClosed(message) ? saved : live.reduce((a, b) => (b.length > a.length ? b : a), saved);
    return { key: message.id, message, text, draft: false };
  });
  for (const caption of captions) {
    if (!shown.has(caption.itemId)) entries.push(draftOf(caption));
  }
  return entries;
}

function draftOf(caption: Caption): Entry {
  const message: Message = {
    id: caption.itemId,
    role: caption.role,
    parts: [{ kind: 'text', text: caption.text }],
    metadata: { source: 'voice', status: caption.failed ? 'failed' : 'in_progress', itemId: caption.itemId },
  };
  return { key: `draft-${caption.itemId}`, message, text: caption.text, draft: true };
}

/** A piece of a message in the order in which it is shown. */
export type Block = { kind: 'text'; text: string } | Exclude<Part, { kind: 'text' }>;

/**
 * The pieces of a message. Text that grows or was cut off is one piece, where
 * the message has its first text or else at the end: an answer follows its tools.
 */
export function blocksOf({ message, text }: Entry): Block[] {
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
