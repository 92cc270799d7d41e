import { words as de } from './catalogue/product?de';
import { words as en } from './catalogue/product?en';
import { inLanguage } from './language.svelte';

/** The words of panels that are loaded when they are opened. */
export const w = inLanguage<typeof import('./catalogue/product').words>(en, de);

/** What a tool is for, in one line: in the page's words where it is the server's own. */
export function purposeOf({ name, description, server }: { name: string; description: string; server: string }): string {
  return (server === '' ? w().does[name] : undefined) ?? description.split('\n')[0] ?? '';
}
