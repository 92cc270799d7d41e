import { asNumber, asObject, asText, parseJson } from '../base/json';

/** A call of this tab, for the page after a reload. */
export interface Remembered {
  callId: string;
  threadId: string;
}

const key = 'voicebridge-call';
/** How long the server may keep it. */
export const waitingMs = 60_000;

/** Reads what was stored; null if there is nothing or it is too old. */
export function readRemembered(text: string | null, now: number): Remembered | null {
  const raw = asObject(parseJson(text ?? ''));
  const [callId, threadId] = [asText(raw.callId), asText(raw.threadId)];
  return callId !== '' && threadId !== '' && now - asNumber(raw.at, 0) < waitingMs ? { callId, threadId } : null;
}

/** The call that this tab had when it was last left. */
export function recall(now: number): Remembered | null {
  try {
    return readRemembered(sessionStorage.getItem(key), now);
  } catch {
    return null;
  }
}

/** Stores the call of a page that is left. */
export function remember({ callId, threadId }: Remembered): void {
  try {
    sessionStorage.setItem(key, JSON.stringify({ callId, threadId, at: Date.now() }));
  } catch {
    // Without storage there is no offer to rejoin after a reload.
  }
}

/** There is no call any more. */
export function forget(): void {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // Nothing was stored.
  }
}
