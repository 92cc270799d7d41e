import { ApiError, isPassing } from '../api/http';
import { addToQueue } from '../api/queue';
import { postOnce } from '../api/threads';
import { newId } from '../base/id';
import { asObjects, asText, parseJson } from '../base/json';
import { retryDelay } from '../link/socket';

/** A text that was typed into a call and is not known to be saved. */
export interface Unsaved {
  /** The id of its item in the call. */
  id: string;
  thread: string;
  callId: string;
  text: string;
  /** The call has it: it need not be said to be on its way. */
  heard?: boolean;
  /** The queue was asked to take it: what may be there goes nowhere else. */
  queued?: boolean;
}

interface Hooks {
  /** Whether nothing is to be sent by HTTP yet: the call that had the text may come back, or a call is being connected. */
  holds: (text: Unsaved) => boolean;
  /** The server does not take the text. */
  onRefused: (text: Unsaved, why: unknown) => void;
}

const key = 'voicebridge-outbox';
const holdMs = 500;

/**
 * The texts typed into calls, from when they are sent until the server has saved them. An open data channel is no proof
 * that they arrive. What a call leaves unsaved is sent by HTTP, one after the other, under a key by which the server
 * knows what it has. They survive a reload of the tab.
 */
export class Outbox {
  list = $state.raw<Unsaved[]>([]);
  /** The texts that are on the data channel of the call that is live here. */
  readonly #carried = new Set<string>();
  #delivering = false;

  constructor(
    private readonly hooks: Hooks,
    private readonly storage?: Pick<Storage, 'getItem' | 'setItem'>,
  ) {
    const stored = asObjects(parseJson(storage?.getItem(key) ?? ''));
    this.list = stored
      .map((raw) => ({ id: asText(raw.id), thread: asText(raw.thread), callId: asText(raw.callId), text: asText(raw.text), queued: raw.queued === true }))
      .filter(({ id, thread, callId, text }) => [id, thread, callId, text].every((field) => field !== ''));
    if (this.list.length > 0) void this.#deliver();
  }

  /** Whether texts of a thread must arrive before anything else that is sent there. */
  waits(thread: string): boolean {
    return this.list.some((text) => text.thread === thread);
  }

  /** Waits until the texts of a thread have arrived, or were given back. */
  async settled(thread: string): Promise<void> {
    while (this.waits(thread)) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** Sends a text into the call that has the thread, unless earlier ones are on another way. send puts it on the data channel, and throws if it cannot. */
  say(thread: string, callId: string, text: string, send: (id: string) => void): void {
    const id = newId();
    const free = this.list.every((earlier) => earlier.thread !== thread || this.#carried.has(earlier.id));
    if (free) {
      send(id);
      this.#carried.add(id);
    }
    this.#set([...this.list, { id, thread, callId, text }]);
    if (!free) void this.#deliver();
  }

  /** The call has a text. */
  heard(id: string): void {
    if (this.list.some((text) => text.id === id && !text.heard)) this.#change(id, { heard: true });
  }

  /** A text is saved. */
  saved(id: string | undefined): void {
    if (this.list.some((text) => text.id === id)) this.#set(this.list.filter((text) => text.id !== id));
  }

  /** Removes a text that the call does not take, and returns it. */
  take(id: string): Unsaved | undefined {
    const text = this.list.find((one) => one.id === id);
    this.saved(id);
    return text;
  }

  /** The call is over, or its connection is: what it has not saved goes another way. */
  release(): void {
    this.#carried.clear();
    void this.#deliver();
  }

  /** Drops all texts. */
  forget(): void {
    this.#set([]);
  }

  async #deliver(): Promise<void> {
    if (this.#delivering) return;
    this.#delivering = true;
    for (let attempt = 0; ; ) {
      const text = this.list.find(({ id }) => !this.#carried.has(id));
      if (!text) break;
      if (this.hooks.holds(text)) {
        await new Promise((resolve) => setTimeout(resolve, holdMs));
        continue;
      }
      try {
        await this.#post(text);
        this.saved(text.id);
        attempt = 0;
      } catch (thrown) {
        // A call that begins or ends takes nothing for a moment.
        const passes = isPassing(thrown) || (thrown instanceof ApiError && thrown.code === 'call_active');
        if (passes) await new Promise((resolve) => setTimeout(resolve, Math.max(thrown.retryAfter * 1000, retryDelay(attempt++))));
        else if (this.take(text.id)) this.hooks.onRefused(text, thrown);
      }
    }
    this.#delivering = false;
  }

  async #post({ id, thread, callId, text, queued }: Unsaved): Promise<void> {
    const once = `${callId}/${id}`;
    try {
      if (!queued) return await postOnce(thread, text, once);
    } catch (thrown) {
      if (!(thrown instanceof ApiError && thrown.code === 'agent_busy')) throw thrown;
    }
    this.#change(id, { queued: true });
    await addToQueue(thread, text, once, []);
  }

  #change(id: string, change: Partial<Unsaved>): void {
    this.#set(this.list.map((text) => (text.id === id ? { ...text, ...change } : text)));
  }

  #set(list: Unsaved[]): void {
    this.list = list;
    for (const id of this.#carried) if (!list.some((text) => text.id === id)) this.#carried.delete(id);
    try {
      this.storage?.setItem(key, JSON.stringify(list));
    } catch {
      // Without room in the storage they last as long as the page.
    }
  }
}
