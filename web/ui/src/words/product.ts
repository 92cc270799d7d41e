import { words as de } from './catalogue/product?de';
import { words as en } from './catalogue/product?en';
import { inLanguage } from './language.svelte';

/** The words of panels that are loaded when they are opened. */
export const w = inLanguage<typeof import('./catalogue/product').words>(en, de);
