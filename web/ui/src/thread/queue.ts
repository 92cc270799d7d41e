import { asList, asNumber, asObject, asText, isObject, type Json } from '../base/json';
import type { SocketEvent } from '../link/socket';
import { reasonWords } from '../message/failure';
import { t } from '../words/language.svelte';

// The messages that wait until the assistant is free.

export interface QueuedMessage {
  id: string;
  message: string;
  title: string;
  /** When it is to be sent, if it is scheduled. */
  scheduledAt?: string;
  state: 'queued' | 'sending';
  attempts: number;
  /** Why the last attempt to send it failed. */
  error: string;
}

/** Why nothing is sent at the moment. */
export interface Pause {
  reason: string;
  message: string;
}

export interface Queue {
  messages: QueuedMessage[];
  /** The number of messages according to the server. */
  count: number;
  /** Messages are sent automatically; otherwise the user sends them one by one. */
  enabled: boolean;
  /** How many may wait; 0 means no limit. */
  maxSize: number;
  paused: Pause | null;
  /** Events are missing: the list must be read again. */
  stale: boolean;
}

export const emptyQueue: Queue = { messages: [], count: 0, enabled: true, maxSize: 0, paused: null, stale: false };

/** Reads one waiting message; null if it has no id. */
export function readQueued(raw: unknown): QueuedMessage | null {
  const from = asObject(raw);
  const id = asText(from.id);
  if (id === '') return null;
  return {
    id,
    message: asText(from.message),
    title: asText(from.title),
    scheduledAt: asText(from.scheduled_at) || undefined,
    state: from.state === 'sending' ? 'sending' : 'queued',
    attempts: Math.max(0, asNumber(from.attempts, 0)),
    error: asText(from.error),
  };
}

/** Reads the list from the server's response. */
export function withList(queue: Queue, raw: Json): Queue {
  const messages = readList(raw.messages);
  return { ...queue, messages, count: asNumber(raw.count, messages.length), paused: readPause(raw.paused), stale: false };
}

function readList(raw: unknown): QueuedMessage[] {
  return asList(raw).flatMap((m) => readQueued(m) ?? []);
}

function readPause(raw: unknown): Pause | null {
  return isObject(raw) ? { reason: asText(raw.reason), message: asText(raw.message) } : null;
}

/** Applies one event of the thread's socket. Events about other things change nothing. */
export function reduceQueue(queue: Queue, { type, data }: SocketEvent): Queue {
  const id = asText(data.message_id);
  switch (type) {
    case 'connected':
      return connected(queue, data);
    case 'queue_updated':
      return updated(queue, asText(data.action), id, data);
    case 'queue_message_sending':
      return { ...queue, messages: change(queue, id, { state: 'sending', error: '' }), stale: queue.stale || !has(queue, id) || queue.paused !== null };
    case 'queue_message_sent':
      return without(queue, id);
    case 'queue_message_titled':
      return { ...queue, messages: change(queue, id, { title: asText(data.title) }) };
    case 'queue_reordered':
      return reordered(queue, data);
    case 'queue_paused':
      // The message being sent waits again, and says why.
      return { ...queue, paused: readPause(data), stale: true };
    case 'queue_resumed':
      return { ...queue, paused: null, stale: true };
    default:
      return queue;
  }
}

function connected(queue: Queue, data: Json): Queue {
  const config = asObject(data.queue_config);
  const count = Math.max(0, asNumber(data.queue_length, 0));
  const fresh = { ...queue, count, enabled: config.enabled !== false, maxSize: Math.max(0, asNumber(config.max_size, 0)) };
  // Events may have been missed while there was no connection.
  return count === 0 ? { ...fresh, messages: [], paused: null, stale: false } : { ...fresh, stale: true };
}

function updated(queue: Queue, action: string, id: string, data: Json): Queue {
  const next = action === 'cleared' ? { ...queue, messages: [] } : action === 'removed' ? drop(queue, id) : queue;
  const count = asNumber(data.queue_length, next.messages.length);
  const known = action === 'cleared' || action === 'removed' || (action === 'added' && has(queue, id));
  return { ...next, count, stale: next.stale || !known || !fits(next.messages, count) };
}

// The message being sent may or may not be counted.
function fits(messages: QueuedMessage[], count: number): boolean {
  return count === messages.length || count === messages.filter((m) => m.state === 'queued').length;
}

function without(queue: Queue, id: string): Queue {
  return has(queue, id) ? { ...drop(queue, id), count: Math.max(0, queue.count - 1) } : queue;
}

// A list of ids is as good as one of messages.
function reordered(queue: Queue, data: Json): Queue {
  const order = asList(data.messages).map((m) => (typeof m === 'string' ? m : asText(asObject(m).id)));
  const messages = order.flatMap((id) => queue.messages.find((m) => m.id === id) ?? []);
  const complete = messages.length === queue.messages.length && messages.length === order.length;
  return complete ? { ...queue, messages } : { ...queue, stale: true };
}

function has(queue: Queue, id: string): boolean {
  return queue.messages.some((m) => m.id === id);
}

function drop(queue: Queue, id: string): Queue {
  return { ...queue, messages: queue.messages.filter((m) => m.id !== id) };
}

function change(queue: Queue, id: string, to: Partial<QueuedMessage>): QueuedMessage[] {
  return queue.messages.map((m) => (m.id === id ? { ...m, ...to } : m));
}

/** Whether the queue is full. */
export function isFull(queue: Queue): boolean {
  return queue.maxSize > 0 && Math.max(queue.count, queue.messages.length) >= queue.maxSize;
}

/** Whether a text typed now has to wait behind others. */
export function isWaiting(queue: Queue): boolean {
  return queue.enabled && queue.paused === null && queue.messages.length > 0;
}

const shown = 50;

/** The label of a waiting message: its title, or else its beginning. */
export function labelOf({ title, message }: QueuedMessage): string {
  const text = (title || message).trim().replace(/\s+/g, ' ');
  const letters = [...text];
  return letters.length > shown ? `${letters.slice(0, shown).join('').trimEnd()}…` : text;
}

/** Says why a message could not be sent; often that is why the queue is paused, too. */
export function errorWords({ error }: QueuedMessage, paused: Pause | null): string {
  return paused?.message === error ? reasonWords(paused.reason, error) : error;
}

/** Says why the queue is paused. */
export function pauseWords({ reason, message }: Pause): string {
  if (message !== '') return reasonWords(reason, message);
  return reason === '' ? t().queue.paused : t().queue.pausedBecause(reason.replaceAll('_', ' '));
}
