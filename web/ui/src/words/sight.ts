import { words as de } from './catalogue/sight?de';
import { words as en } from './catalogue/sight?en';
import { inLanguage } from './language.svelte';

/** The words of what the assistant may see in a call, which are loaded with it. */
export const w = inLanguage<typeof import('./catalogue/sight').words>(en, de);
