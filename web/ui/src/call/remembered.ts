import { asNumber, asObject, asText, parseJson } from '../base/json';

/** A call of this tab, for the page after a reload. */
export interface Remembered {
  callId: string;
  threadId: string;
}

const key = 'voicebridge-call';
const waitingMs = 60_000;

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

/** Stores the call, and the time when the page is left. */
export function remember(call: Remembered): void {
  const write = () => {
    try {
      sessionStorage.setItem(key, JSON.stringify({ ...call, at: Date.now() }));
    } catch {
      // Without storage there is no offer to rejoin after a reload.
    }
  };
  write();
  leaving.replace(write);
}

/** There is no call any more. */
export function forget(): void {
  leaving.replace(null);
  try {
    sessionStorage.removeItem(key);
  } catch {
    // Nothing was stored.
  }
}

// What to do when the page is left.
const leaving = {
  now: null as (() => void) | null,
  replace(next: (() => void) | null) {
    if (this.now) removeEventListener('pagehide', this.now);
    if (next) addEventListener('pagehide', next);
    this.now = next;
  },
};
