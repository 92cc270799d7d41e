import { words as de } from './catalogue/charts?de';
import { words as en } from './catalogue/charts?en';
import { inLanguage } from './language.svelte';

/** The words of charts and tables, which are loaded with the first of them. */
export const w = inLanguage<typeof import('./catalogue/charts').words>(en, de);
