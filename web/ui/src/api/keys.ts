import { newId } from '../base/id';
import { asObject, asText, parseJson } from '../base/json';
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
  isUnsure(text: string): boolean {
    return this.#unknown.has(text);
  }

  /** Sends a text with its key. */
  async use(text: string, send: (key: string) => Promise<void>): Promise<void> {
    const key = this.#unknown.get(text) ?? newId();
    this.#note(text, key);
    try {
      await send(key);
      this.#note(text);
    } catch (thrown) {
      if (thrown instanceof ApiError && thrown.status > 0 && thrown.status < 500) this.#note(text);
      throw thrown;
    }
  }

  #note(text: string, key?: string): void {
    if (key) this.#unknown.set(text, key);
    else this.#unknown.delete(text);
    try {
      this.storage?.setItem(this.name, JSON.stringify(Object.fromEntries(this.#unknown)));
    } catch {
      // Without room in the storage a key lasts as long as the page.
    }
  }
}
