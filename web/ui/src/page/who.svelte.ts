import { SvelteMap } from 'svelte/reactivity';
import { ApiError, sendJson } from '../api/http';
import { asObject, asText, type Json } from '../base/json';

/** Whom the user talks to, as far as a call shows it. */
export interface Who {
  id: string;
  name: string;
  /** Empty: the server's. */
  voice: string;
  /** Its calls are recorded, where the server permits it. */
  records: boolean;
}

/** The assistants that the page has met. */
export class Assistants {
  readonly #known = new SvelteMap<string, Who | null>();

  /** What is known of one; null if there is none, undefined if it was not read yet. */
  of(id: string): Who | null | undefined {
    return id === '' ? null : this.#known.get(id);
  }

  /** Reads one; null if it is gone, so that the server's settings hold. */
  async read(id: string): Promise<Who | null> {
    if (id === '') return null;
    try {
      return this.put(await sendJson('GET', `api/assistants/${encodeURIComponent(id)}`));
    } catch (thrown) {
      if (!(thrown instanceof ApiError) || thrown.status !== 404) throw thrown;
      this.#known.set(id, null);
      return null;
    }
  }

  /** Takes in what was read or saved. */
  put(raw: Json): Who {
    const who = { id: asText(raw.id), name: asText(raw.name), voice: asText(asObject(raw.voice).voice), records: raw.recording === true };
    this.#known.set(who.id, who);
    return who;
  }
}
