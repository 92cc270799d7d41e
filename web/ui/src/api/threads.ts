import { asList, asNumber, asObject, asObjects, asText, type Json } from '../base/json';
import type { CodeSettings } from '../call/clienttools';
import { defaultLimits } from '../code/outcome';
import { readMessage, type Message } from '../thread/message';
import { send, sendJson } from './http';

export interface Thread {
  id: string;
  title: string;
  updatedAt: string;
}

export interface Config {
  upstream: string;
  note: string;
  version: string;
  iceServers: RTCIceServer[];
  code: CodeSettings;
}

const path = (id: string) => `api/threads/${encodeURIComponent(id)}`;

function readThread(raw: Json): Thread {
  return { id: asText(raw.id), title: asText(raw.title), updatedAt: asText(raw.updated_at) };
}

export async function getConfig(): Promise<Config> {
  const raw = await sendJson('GET', 'api/config');
  return {
    upstream: asText(raw.upstream),
    note: asText(raw.upstream_note),
    version: asText(raw.version),
    iceServers: asObjects(raw.ice_servers) as unknown as RTCIceServer[],
    code: readCode(raw),
  };
}

function readCode(raw: Json): CodeSettings {
  const limits = asObject(raw.code);
  const positive = (value: unknown, fallback: number) => {
    const n = asNumber(value, 0);
    return n > 0 ? n : fallback;
  };
  return {
    tools: asList(raw.client_tools).filter((name) => typeof name === 'string'),
    pyodide: asText(limits.pyodide),
    limits: {
      ...defaultLimits,
      timeoutMs: positive(limits.timeout_ms, defaultLimits.timeoutMs),
      memoryBytes: positive(limits.memory_bytes, defaultLimits.memoryBytes),
    },
  };
}

export async function listThreads(cursor = ''): Promise<{ threads: Thread[]; next: string }> {
  const raw = await sendJson('GET', `api/threads${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ''}`);
  return { threads: asObjects(raw.threads).map(readThread), next: asText(raw.next_cursor) };
}

export async function createThread(): Promise<Thread> {
  return readThread(await sendJson('POST', 'api/threads', {}));
}

export async function getThread(id: string): Promise<Thread> {
  return readThread(await sendJson('GET', path(id)));
}

export async function renameThread(id: string, title: string): Promise<Thread> {
  return readThread(await sendJson('PATCH', path(id), { title }));
}

export async function deleteThread(id: string): Promise<void> {
  await sendJson('DELETE', path(id));
}

/** One page of messages after a sequence number; next is null at the end. */
export async function listMessages(id: string, after: number): Promise<{ messages: Message[]; next: number | null }> {
  const raw = await sendJson('GET', `${path(id)}/messages?after=${after}&limit=200`);
  const messages = asList(raw.messages).flatMap((m) => readMessage(m) ?? []);
  return { messages, next: asNumber(raw.next_after) ?? null };
}

/** Sends a text and returns when the server has it. The answer is not waited for: the thread's socket brings it. */
export async function postMessage(id: string, content: string): Promise<void> {
  const response = await send(`${path(id)}/messages`, {
    method: 'POST',
    headers: { Accept: 'text/event-stream', 'Content-Type': 'application/json' },
    body: JSON.stringify({ content }),
  });
  await response.body?.cancel();
}

export async function interrupt(id: string): Promise<void> {
  await sendJson('POST', `${path(id)}/interrupt`);
}
