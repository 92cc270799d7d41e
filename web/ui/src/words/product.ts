import { inLanguage } from './language.svelte';
import { textIn } from './texts';

/** The words of panels that are loaded when they are opened. */
export const w = inLanguage<'product'>(import.meta.glob('./*.json', { query: '?product', import: 'default', eager: true }));

/** What a tool is for, in one line: in the page's words where it is the server's own. */
export function purposeOf({ name, description, server }: { name: string; description: string; server: string }): string {
  return (server === '' ? textIn(w().does, name) : undefined) ?? description.split('\n')[0] ?? '';
}
