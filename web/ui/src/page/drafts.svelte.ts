import { SvelteMap } from 'svelte/reactivity';
import { asObject, parseJson } from '../base/json';
import { forget, Pictures } from './images.svelte';

const key = 'voicebridge-drafts';

/** The unsent texts and images, by thread, so that switching loses nothing. Texts survive a reload of the tab. */
export class Drafts {
  readonly pictures = new Pictures();
  #texts = $state<Record<string, string>>({});
  /** The texts on their way to the server, by thread. */
  readonly #leaving = new SvelteMap<string, string>();
  /** What came back last, by thread. */
  readonly #returned = new Map<string, string>();

  constructor(private readonly storage?: Pick<Storage, 'getItem' | 'setItem'>) {
    const stored = Object.entries(asObject(parseJson(storage?.getItem(key) ?? '')));
    for (const [thread, text] of stored) if (typeof text === 'string') this.#texts[thread] = text;
  }

  of(thread: string): string {
    return this.#texts[thread] ?? '';
  }

  /** Whether something is being sent in a thread. */
  sends(thread: string): boolean {
    return this.#leaving.has(thread);
  }

  /** The text that is being sent in a thread; empty if there is none. */
  leaving(thread: string): string {
    return this.#leaving.get(thread) ?? '';
  }

  write(thread: string, text: string): void {
    this.#texts[thread] = text;
    // A reload loses nothing that the server has not confirmed.
    const threads = [...this.#leaving.keys(), ...Object.keys(this.#texts)];
    const kept = threads.map((id) => [id, joined(this.#leaving.get(id), this.of(id))]).filter(([, words]) => words !== '');
    try {
      this.storage?.setItem(key, JSON.stringify(Object.fromEntries(kept)));
    } catch {
      // Without room in the storage the text lasts as long as the page.
    }
  }

  /** Drops all texts. */
  forget(): void {
    this.#texts = {};
    this.#leaving.clear();
    this.write('', '');
  }

  /** Puts a text before the unsent one. */
  prepend(thread: string, text: string): void {
    this.write(thread, joined(text, this.of(thread)));
  }

  /** Puts a text that was not sent before the unsent one, behind what came back before it. */
  giveBack(thread: string, text: string): void {
    const box = this.of(thread);
    const before = this.#returned.get(thread) ?? '';
    const first = before !== '' && box.startsWith(before) ? joined(before, text) : text;
    this.write(thread, joined(first, first === text ? box : box.slice(before.length).trimStart()));
    this.#returned.set(thread, first);
  }

  /** Moves what is unsent to a thread that was made for it. */
  move(from: string, to: string): void {
    this.prepend(to, this.of(from));
    this.write(from, '');
    this.pictures.putBack(to, this.pictures.take(from));
  }

  /**
   * Sends the draft of a thread. It leaves its box at once, so that the next text can be written
   * there; what could not be sent comes back before that. `made` is to be told of a thread that
   * was made for the text, to which all goes along.
   */
  async send(thread: string, send: (text: string, made: (id: string) => void, images: Blob[]) => Promise<boolean>): Promise<boolean> {
    const text = this.of(thread).trim();
    const pictures = this.pictures.take(thread);
    let home = thread;
    this.#leaving.set(thread, text);
    this.write(thread, '');
    const made = (id: string) => {
      this.#leaving.delete(home);
      this.#leaving.set(id, text);
      this.move(home, id);
      home = id;
    };
    const sent = await send(text, made, pictures.map(({ file }) => file));
    this.#leaving.delete(home);
    this.prepend(home, sent ? '' : text);
    if (sent) forget(pictures);
    else this.pictures.putBack(home, pictures);
    return sent;
  }
}

function joined(...parts: (string | undefined)[]): string {
  return parts.filter((part) => part?.trim()).join('\n');
}
