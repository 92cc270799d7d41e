import { asList, asNumber, asObject, asObjects, asText, parseJson, type Json } from '../base/json';
import { readMessage, type Message } from '../message/message';
import { bodyOf, longPatience, patience, send, sendJson, urlOf } from './http';
import { sentKeys } from './keys';

export interface Thread {
  id: string;
  title: string;
  updatedAt: string;
  /** Messages with numbers below it are no longer read by models. */
  resetSeq?: number;
  /** The assistant that answers; none: the server's settings hold. */
  assistant?: string;
  /** What a search has found in it. */
  match?: string;
}

const path = (id: string) => `api/threads/${encodeURIComponent(id)}`;

/** Reads a thread from the server's response. */
export function readThread(raw: Json): Thread {
  return { id: asText(raw.id), title: asText(raw.title), updatedAt: asText(raw.updated_at), resetSeq: asNumber(raw.reset_seq), assistant: asText(raw.assistant_id) || undefined, match: asText(raw.match) || undefined };
}

/** One page of threads, latest activity first; with a query, those that contain its words. */
export async function listThreads({ cursor = '', query = '', signal }: { cursor?: string; query?: string; signal?: AbortSignal } = {}): Promise<{
  threads: Thread[];
  next: string;
}> {
  const parameters = new URLSearchParams();
  if (cursor) parameters.set('cursor', cursor);
  if (query) parameters.set('q', query);
  const raw = await sendJson('GET', `api/threads${parameters.size > 0 ? `?${parameters}` : ''}`, undefined, signal);
  return { threads: asObjects(raw.threads).map(readThread), next: asText(raw.next_cursor) };
}

export async function createThread(assistant?: string): Promise<Thread> {
  return readThread(await sendJson('POST', 'api/threads', assistant ? { assistant_id: assistant } : {}));
}

export async function getThread(id: string): Promise<Thread> {
  return readThread(await sendJson('GET', path(id), undefined, patience()));
}

export async function renameThread(id: string, title: string): Promise<Thread> {
  return readThread(await sendJson('PATCH', path(id), { title }));
}

/** Deletes a thread, even while the page is being left. */
export async function deleteThread(id: string): Promise<void> {
  await send(path(id), { method: 'DELETE', keepalive: true, signal: longPatience() });
}

/** One page of messages after a sequence number; next is null at the end. */
export async function listMessages(id: string, after: number, limit = 200): Promise<{ messages: Message[]; next: number | null }> {
  const raw = await sendJson('GET', `${path(id)}/messages?after=${after}&limit=${limit}`);
  const messages = asList(raw.messages).flatMap((m) => readMessage(m) ?? []);
  return { messages, next: asNumber(raw.next_after) ?? null };
}

/** Sends a text and returns when the server has it. The answer arrives later, on the thread's socket. */
export function postMessage(id: string, content: string, images: string[] = []): Promise<void> {
  return sentKeys.use([id, content, images], (key) => post(id, { content, idempotency_key: key, ...(images.length > 0 ? { image_ids: images } : {}) }));
}

/**
 * The link by which everybody may read the thread, empty if there is none: as it is (GET), made (POST), which is the same
 * until it is withdrawn, or withdrawn (DELETE).
 */
export async function linkTo(id: string, method: 'GET' | 'POST' | 'DELETE'): Promise<string> {
  const { url } = await sendJson(method, `${path(id)}/share`);
  return url ? urlOf(asText(url).replace(/^\//, '')).href : '';
}

/** Sends a text under its own key; returns when the server has it, which it may have had already. */
export function postOnce(id: string, content: string, key: string): Promise<void> {
  return post(id, { content, idempotency_key: key });
}

/** Says a message anew, with other words: what followed it is no longer read by the model. The turn goes on after this request. */
export async function editMessage(id: string, messageId: string, text: string, files: { mediaType: string; url: string }[]): Promise<void> {
  const parts = [{ type: 'text', text }, ...files.map((file) => ({ type: 'file', ...file }))];
  await post(id, { id, messages: [{ id: messageId, role: 'user', parts }], trigger: 'submit-message', messageId });
}

/** Regenerates an answer. Without the messages that useChat would send, the turn goes on after this request. */
export async function regenerate(id: string, answerId: string): Promise<void> {
  await post(id, { trigger: 'regenerate-message', messageId: answerId });
}

async function post(id: string, body: object): Promise<void> {
  const response = await send(`${path(id)}/messages`, {
    method: 'POST',
    headers: { Accept: 'text/event-stream', 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: longPatience(),
  });
  await response.body?.cancel().catch(() => undefined); // the server has it all the same
}

export async function interrupt(id: string): Promise<void> {
  await sendJson('POST', `${path(id)}/interrupt`);
}

/** Resets the context: later turns and calls do not see the earlier messages. */
export async function resetThread(id: string): Promise<void> {
  await sendJson('POST', `${path(id)}/reset`);
}

/** The address for downloading a thread. */
export function exportUrl(id: string, format: 'markdown' | 'json'): string {
  return urlOf(`${path(id)}/export?format=${format}`).href;
}

const saved = new WeakMap<Blob, { thread: string; id: string }>();

/** Saves an image in a thread and returns its id. Sent once more, it keeps the id, so that its message is the same, too. */
export async function uploadImage(thread: string, image: Blob): Promise<string> {
  const known = saved.get(image);
  if (known?.thread === thread) return known.id;
  const signal = longPatience(image.size);
  const response = await send(`${path(thread)}/images`, { method: 'POST', headers: { 'Content-Type': image.type }, body: image, signal });
  const id = asText(asObject(parseJson(await bodyOf(response, signal))).image_id);
  saved.set(image, { thread, id });
  return id;
}
