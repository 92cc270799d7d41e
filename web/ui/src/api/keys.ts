import { newId } from '../base/id';
import { asList, asObject, asText, parseJson } from '../base/json';
import { tabStorage } from '../base/storage';
import { ApiError } from './http';

/**
 * Idempotency keys. A text whose fate is unknown keeps its key, also when its tab is reloaded: sent once more, it must
 * not be taken twice.
 */
export class Keys {
  readonly #unknown: Map<string, string>;

  /** @param name where the storage has them */
  constructor(
    private readonly name: string,
    private readonly storage: Pick<Storage, 'getItem' | 'setItem'> | undefined = tabStorage(),
  ) {
    const stored = Object.entries(asObject(parseJson(storage?.getItem(name) ?? '')));
    this.#unknown = new Map(stored.map(([text, key]) => [text, asText(key) || newId()]));
  }

  /** Whether a text may have arrived although it could not be sent. */
  isUnsure(...text: Text): boolean {
    return this.#unknown.has(JSON.stringify(text));
  }

  /** Sends a text with its key. */
  async use(text: Text, send: (key: string) => Promise<void>): Promise<void> {
    const name = JSON.stringify(text);
    const key = this.#unknown.get(name) ?? newId();
    this.#note(name, key);
    try {
      await send(key);
      this.#note(name);
    } catch (thrown) {
      if (thrown instanceof ApiError && thrown.status > 0 && thrown.status < 500) this.#note(name);
      throw thrown;
    }
  }

  /** Forgets the texts of a thread that are not in its box any more: the user has given them up, and may say the same again. */
  keepOnly(thread: string, box: string): void {
    for (const name of [...this.#unknown.keys()]) {
      const [of, text] = asList(parseJson(name));
      if (of === thread && !box.includes(asText(text))) this.#note(name);
    }
  }

  #note(name: string, key?: string): void {
    if (key) this.#unknown.set(name, key);
    else this.#unknown.delete(name);
    try {
      this.storage?.setItem(this.name, JSON.stringify(Object.fromEntries(this.#unknown)));
    } catch {
      // Without room in the storage a key lasts as long as the page.
    }
  }
}

/** A text with its thread and the ids of its images. */
export type Text = [thread: string, text: string, images: string[]];

/** Texts that were sent. */
export const sentKeys = new Keys('voicebridge-unsure');

/** Texts that were put into the queue. */
export const queuedKeys = new Keys('voicebridge-unsure-queued');
