import type { Json } from '../base/json';
import { sendJson } from './http';

const path = (thread: string, rest = '') => `api/threads/${encodeURIComponent(thread)}/queue${rest}`;
const item = (thread: string, id: string, rest = '') => path(thread, `/${encodeURIComponent(id)}${rest}`);

export async function getQueue(thread: string): Promise<Json> {
  return sendJson('GET', path(thread));
}

/** Adds a message; using the same key twice adds only one. */
export async function addToQueue(thread: string, message: string, key: string, images: string[]): Promise<void> {
  await sendJson('POST', path(thread), { message, idempotency_key: key, ...(images.length > 0 ? { image_ids: images } : {}) });
}

export async function clearQueue(thread: string): Promise<void> {
  await sendJson('DELETE', path(thread));
}

export async function resumeQueue(thread: string): Promise<void> {
  await sendJson('POST', path(thread, '/resume'));
}

export async function editQueued(thread: string, id: string, message: string): Promise<void> {
  await sendJson('PATCH', item(thread, id), { message });
}

export async function removeQueued(thread: string, id: string): Promise<void> {
  await sendJson('DELETE', item(thread, id));
}

export async function moveQueued(thread: string, id: string, direction: 'up' | 'down'): Promise<void> {
  await sendJson('POST', item(thread, id, '/move'), { direction });
}

/** Sends one message now, on the user's request. */
export async function sendQueued(thread: string, id: string): Promise<void> {
  await sendJson('POST', item(thread, id, '/send'));
}
