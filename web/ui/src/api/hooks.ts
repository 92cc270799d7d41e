import { asNumber, asObjects, asText, type Json } from '../base/json';
import { sendJson } from './http';

const path = (id: string) => `api/hooks/${encodeURIComponent(id)}`;

const readHook = (raw: Json) => ({
  id: asText(raw.id),
  url: asText(raw.url),
  events: Array.isArray(raw.events) ? raw.events.map((event) => asText(event)) : [],
  enabled: raw.enabled === true,
  /** The receiver has switched it off. */
  gone: raw.off_reason === 'gone',
});
export type Hook = ReturnType<typeof readHook>;

export async function listHooks(): Promise<Hook[]> {
  return asObjects((await sendJson('GET', 'api/hooks')).hooks).map(readHook);
}

/** Makes a hook; its secret is told only here. */
export async function addHook(url: string, events: string[]): Promise<string> {
  return asText((await sendJson('POST', 'api/hooks', { url, events })).secret);
}

export async function changeHook(id: string, change: Partial<Pick<Hook, 'url' | 'events' | 'enabled'>>): Promise<void> {
  await sendJson('PATCH', path(id), change);
}

export async function deleteHook(id: string): Promise<void> {
  await sendJson('DELETE', path(id));
}

export async function testHook(id: string): Promise<void> {
  await sendJson('POST', `${path(id)}/test`);
}

/** The last deliveries of a hook, the latest first. */
export async function listDeliveries(id: string) {
  const { deliveries } = await sendJson('GET', `${path(id)}/deliveries?limit=20`);
  return asObjects(deliveries).map((raw) => ({
    id: asText(raw.id),
    type: asText(raw.type),
    state: asText(raw.state),
    attempts: asNumber(raw.attempts, 0),
    status: asNumber(raw.last_status),
    error: asText(raw.last_error),
    createdAt: asText(raw.created_at),
    nextAt: asText(raw.next_at),
  }));
}

export async function retryDelivery(hook: string, id: string): Promise<void> {
  await sendJson('POST', `${path(hook)}/deliveries/${encodeURIComponent(id)}/retry`);
}
