import { t } from '../words/language.svelte';
import type { Metadata } from './message';

/** What is said below an answer that failed. Where its text is the reason, that is not said twice. */
export function failureWords({ error, notice }: Metadata, text: string): string {
  const words = t().transcript;
  if (text !== '' && notice) return words.failed;
  if (error) return words.failedBecause(error);
  return text === '' ? words.failed : words.failedEarly;
}
