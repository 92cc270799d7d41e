import { SvelteMap } from 'svelte/reactivity';
import { listModels, type Model } from '../api/assistants';
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
  /** What the API has. */
  whole: Json;
}

/** The assistants that the page has met. */
export class Assistants {
  /** What answers in calls, where a call may have more than one model. */
  models = $state.raw<Model[]>([]);
  readonly #known = new SvelteMap<string, Who | null>();

  async readModels(): Promise<void> {
    this.models = await listModels();
  }

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
    const who = { id: asText(raw.id), name: asText(raw.name), voice: asText(asObject(raw.voice).voice), records: raw.recording === true, whole: raw };
    this.#known.set(who.id, who);
    return who;
  }
}
