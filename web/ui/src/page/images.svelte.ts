import { PlainError } from '../base/errors';
import { t } from '../words/language.svelte';

/** An image to be sent. */
export interface Picture {
  id: number;
  name: string;
  file: Blob;
  /** Its address on this page. */
  url: string;
}

export const imageTypes = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const maxBytes = 10 * 1000 * 1000;
/** The server takes no more in one message. */
const most = 10;

/** The images of the next messages, by thread. */
export class Pictures {
  #lists = $state.raw<Record<string, Picture[]>>({});
  #next = 1;

  of(thread: string): Picture[] {
    return this.#lists[thread] ?? [];
  }

  /** Adds image files; throws at the first that is not an image, is too large or is one too many. */
  add(thread: string, files: Iterable<File>): void {
    for (const file of files) {
      if (!imageTypes.includes(file.type)) throw new PlainError('not_image', t().composer.notImage);
      if (file.size > maxBytes) throw new PlainError('image_too_large', t().composer.tooLarge);
      if (this.of(thread).length >= most) throw new PlainError('too_many_images', t().composer.tooMany(most));
      this.#set(thread, [...this.of(thread), { id: this.#next++, name: file.name, file, url: URL.createObjectURL(file) }]);
    }
  }

  remove(thread: string, id: number): void {
    forget(this.of(thread).filter((picture) => picture.id === id));
    this.#set(thread, this.of(thread).filter((picture) => picture.id !== id));
  }

  /** Takes the images out, to be sent. They are put back, or forgotten. */
  take(thread: string): Picture[] {
    const taken = this.of(thread);
    this.#set(thread, []);
    return taken;
  }

  /** Puts images before those that were added meanwhile. */
  putBack(thread: string, taken: Picture[]): void {
    this.#set(thread, [...taken, ...this.of(thread)]);
  }

  #set(thread: string, list: Picture[]): void {
    this.#lists = { ...this.#lists, [thread]: list };
  }
}

/** Lets the browser free images that the page no longer shows. */
export function forget(pictures: Picture[]): void {
  pictures.forEach(({ url }) => URL.revokeObjectURL(url));
}
