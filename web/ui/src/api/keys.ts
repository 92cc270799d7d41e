import { newId } from '../base/id';
import { ApiError } from './http';

/** Idempotency keys. A text whose fate is unknown keeps its key: sent once more, it must not be taken twice. */
export class Keys {
  #unknown = new Map<string, string>();

  /** Whether a text may have arrived although it could not be sent. */
  isUnsure(text: string): boolean {
    return this.#unknown.has(text);
  }

  /** Sends a text with its key. */
  async use(text: string, send: (key: string) => Promise<void>): Promise<void> {
    const key = this.#unknown.get(text) ?? newId();
    this.#unknown.set(text, key);
    try {
      await send(key);
      this.#unknown.delete(text);
    } catch (thrown) {
      if (thrown instanceof ApiError && thrown.status > 0 && thrown.status < 500) this.#unknown.delete(text);
      throw thrown;
    }
  }
}
