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
const most = 8;

/** The images of the next message. */
export class Pictures {
  list = $state.raw<Picture[]>([]);
  #next = 1;

  /** Adds image files; throws at the first that is not an image or is too large. */
  add(files: Iterable<File>): void {
    for (const file of files) {
      if (!imageTypes.includes(file.type)) throw new PlainError('not_image', t().composer.notImage);
      if (file.size > maxBytes) throw new PlainError('image_too_large', t().composer.tooLarge);
      this.list = [...this.list, { id: this.#next++, name: file.name, file, url: URL.createObjectURL(file) }].slice(-most);
    }
  }

  remove(id: number): void {
    for (const picture of this.list) if (picture.id === id) URL.revokeObjectURL(picture.url);
    this.list = this.list.filter((picture) => picture.id !== id);
  }

  clear(): void {
    this.list.forEach(({ id }) => this.remove(id));
  }
}

/** An image as a data URL, small enough for an event of a call. */
export async function dataUrlOf(image: Blob, longest = 1024): Promise<string> {
  const bitmap = await createImageBitmap(image);
  const scale = Math.min(1, longest / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas.toDataURL('image/jpeg', 0.8);
}
