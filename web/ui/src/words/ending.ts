import { inLanguage } from './language.svelte';
import { textIn } from './texts';

/** The words of the ends of calls, which are loaded with the first call. */
export const ends = inLanguage<'ending'>(import.meta.glob('./*.json', { query: '?ending', import: 'default', eager: true }));

/** Says why a call ended. */
export function endingWords(reason: string): string {
  return textIn(ends().endings, reason) ?? ends().ended(reason.replaceAll('_', ' '));
}

/** Endings that nobody asked for are shown as a problem. */
export function isBadEnding(reason: string): boolean {
  return reason !== 'hangup' && reason !== 'assistant';
}
