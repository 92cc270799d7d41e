import { words as de } from './catalogue/ending?de';
import { words as en } from './catalogue/ending?en';
import { inLanguage } from './language.svelte';

/** The words of the ends of calls, which are loaded with the first call. */
export const ends = inLanguage<typeof import('./catalogue/ending').words>(en, de);

/** Says why a call ended. */
export function endingWords(reason: string): string {
  return ends().endings[reason] ?? ends().ended(reason.replaceAll('_', ' '));
}

/** Endings that nobody asked for are shown as a problem. */
export function isBadEnding(reason: string): boolean {
  return reason !== 'hangup';
}
