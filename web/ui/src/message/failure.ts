import { t } from '../words/language.svelte';
import type { Metadata } from './message';

/** The line below a failed answer. If its text is the reason already, that is not repeated. */
export function failureWords({ error, notice }: Metadata, text: string): string {
  const words = t().transcript;
  if (text !== '' && notice) return words.failed;
  if (error) return words.failedBecause(error);
  return text === '' ? words.failed : words.failedEarly;
}
