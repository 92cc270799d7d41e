import { inLanguage } from './language.svelte';

/** The words of charts and tables, which are loaded with the first of them. */
export const w = inLanguage<'charts'>(import.meta.glob('./*.json', { query: '?charts', import: 'default', eager: true }));
