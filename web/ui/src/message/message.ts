import { asList, asNumber, asObject, asText, isObject, type Json } from '../base/json';
import { isKept } from './content';

// A message has the form of the AI SDK's UIMessage.

export type Role = 'system' | 'user' | 'assistant';
export type Status = 'in_progress' | 'completed' | 'interrupted' | 'failed';
export type Source = 'voice' | 'text';

export interface Metadata {
  source: Source;
  status: Status;
  seq?: number;
  itemId?: string;
  /** The upstream's items with what followed where it went on after what was no interruption. */
  rests?: string[];
  callId?: string;
  heardText?: string;
  /** Where it is in the recording of its call, in milliseconds. */
  audio?: { start: number; end: number };
  createdAt?: string;
  model?: string;
  /** The answer's usage. */
  tokens?: number;
  /** Named latencies in milliseconds. */
  latencyMs?: Record<string, number>;
  /** Why the answer broke off: what kind of failure it was, and the server's words for it. */
  error?: { kind: string; message: string };
  /** How a typed answer ended, in a word of the server's. */
  finish?: string;
  // What the model has refused of the request, for the first time.
  without?: string;
  /** The text is the server's own words, such as why an answer failed, and not the model's. */
  notice?: boolean;
  /** The model no longer reads the message: its turn failed, or something else was said instead. */
  discarded?: boolean;
}

export interface TextPart {
  kind: 'text';
  text: string;
}

export interface ToolPart {
  kind: 'tool';
  name: string;
  toolCallId: string;
  state: 'running' | 'done' | 'failed';
  input: unknown;
  output: unknown;
  errorText: string;
  /** The MCP server to which the user has to sign in first, if that is why it failed. */
  signIn?: string;
}

/** An image or another file that belongs to the message. */
export interface FilePart {
  kind: 'file';
  mediaType: string;
  url: string;
}

export interface UnknownPart {
  kind: 'unknown';
  type: string;
  raw: Json;
}

export type Part = TextPart | ToolPart | FilePart | UnknownPart;

export interface Message {
  id: string;
  role: Role;
  parts: Part[];
  metadata: Metadata;
}

const roles: readonly string[] = ['system', 'user', 'assistant'];
const statuses: readonly string[] = ['in_progress', 'completed', 'interrupted', 'failed'];

/** Reads one message as the server sends it; null if it has no id or role. */
export function readMessage(raw: unknown): Message | null {
  if (!isObject(raw)) return null;
  const id = asText(raw.id);
  const role = asText(raw.role);
  if (id === '' || !roles.includes(role)) return null;
  return {
    id,
    role: role as Role,
    parts: asList(raw.parts).flatMap(readPart),
    metadata: readMetadata(asObject(raw.metadata)),
  };
}

function readMetadata(raw: Json): Metadata {
  const status = asText(raw.status);
  return {
    source: raw.source === 'voice' ? 'voice' : 'text',
    status: statuses.includes(status) ? (status as Status) : 'completed',
    seq: asNumber(raw.seq),
    itemId: asText(raw.item_id) || undefined,
    rests: raw.rest_item_ids ? asList(raw.rest_item_ids).map((id) => asText(id)) : undefined,
    callId: asText(raw.call_id) || undefined,
    heardText: typeof raw.heard_text === 'string' ? raw.heard_text : undefined,
    audio: readAudio(asObject(raw.audio)),
    createdAt: asText(raw.created_at) || undefined,
    model: asText(raw.model) || undefined,
    tokens: asNumber(asObject(raw.usage).total_tokens),
    latencyMs: readLatency(raw.latency_ms),
    error: readError(asObject(raw.error)),
    finish: raw.refused === true ? 'refused' : asText(raw.finish_reason) || undefined,
    without: asText(raw.without) || undefined,
    notice: raw.notice === true || undefined,
    discarded: raw.discarded === true || undefined,
  };
}

function readAudio(raw: Json): Metadata['audio'] {
  const start = asNumber(raw.start_ms);
  const end = asNumber(raw.end_ms);
  return start === undefined || end === undefined || end <= start ? undefined : { start, end };
}

function readError(raw: Json): Metadata['error'] {
  const message = asText(raw.message);
  return message === '' ? undefined : { kind: asText(raw.kind), message };
}

function readLatency(raw: unknown): Record<string, number> | undefined {
  const entries = Object.entries(asObject(raw)).flatMap(([name, value]): [string, number][] => {
    const ms = asNumber(value);
    return ms === undefined || ms < 0 ? [] : [[name, ms]];
  });
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}

function readPart(raw: unknown): Part[] {
  if (!isObject(raw)) return [];
  const type = asText(raw.type);
  if (type === 'step-start') return [];
  if (type === 'text') return [{ kind: 'text', text: asText(raw.text) }];
  if (type === 'dynamic-tool') return [readTool(raw, asText(raw.toolName, 'tool'))];
  if (type.startsWith('tool-')) return [readTool(raw, type.slice('tool-'.length))];
  const url = pathOf(asText(raw.url));
  if (type === 'file' && isImageAddress(url) && asText(raw.mediaType).startsWith('image/')) {
    return [{ kind: 'file', mediaType: asText(raw.mediaType), url }];
  }
  return [{ kind: 'unknown', type: type || 'part', raw }];
}

// The list of messages has whole addresses. The page keeps to the path, below which it is itself.
function pathOf(url: string): string {
  return url.replace(/^https?:\/\/[^?#]*?(\/api\/threads\/)/, '$1');
}

// Only what this server stores, or a data URL.
function isImageAddress(url: string): boolean {
  return isKept(url) || /^data:image\/(png|jpeg|webp|gif);/.test(url);
}

function readTool(raw: Json, name: string): ToolPart {
  const state = asText(raw.state);
  return {
    kind: 'tool',
    name,
    toolCallId: asText(raw.toolCallId),
    state: state === 'output-available' ? 'done' : state === 'output-error' ? 'failed' : 'running',
    input: raw.input,
    output: raw.output,
    errorText: asText(raw.errorText),
    signIn: asText(asObject(asObject(raw.callProviderMetadata).voicebridge).sign_in) || undefined,
  };
}

/** The text of a message, its text parts joined. */
export function textOf(message: Message): string {
  return beginningOf(message).trim();
}

/** The text of a message to which more is added: with the space at its end. */
export function beginningOf(message: Message): string {
  return message.parts.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join('\n');
}

/**
 * Splits the text of an interrupted answer into what was heard and what was
 * cut. The heard text is normally the beginning of the full one; where it is
 * not to the letter, the split is after as many words as were heard.
 */
export function splitHeard(full: string, heard: string | undefined): { heard: string; cut: string } {
  if (heard === undefined) return { heard: full, cut: '' };
  const said = heard.trim();
  if (full.startsWith(said)) return { heard: said, cut: full.slice(said.length) };
  const count = said.split(/\s+/).filter(Boolean).length;
  const rest = new RegExp(`^\\s*(?:\\S+\\s+){${Math.min(count, 5000)}}`).exec(`${full} `);
  return { heard: said, cut: rest ? ` ${full.slice(rest[0].length)}`.trimEnd() : '' };
}
