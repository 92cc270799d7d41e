import { inLanguage } from './language.svelte';

/** The words of what the assistant may see in a call, which are loaded with it. */
export const w = inLanguage<'sight'>(import.meta.glob('./*.json', { query: '?sight', import: 'default', eager: true }));
