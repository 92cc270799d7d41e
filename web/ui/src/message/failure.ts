import { t } from '../words/language.svelte';
import { textIn } from '../words/texts';
import type { Metadata } from './message';

/** Why something failed, in the page's language if it has words for the kind of failure. */
export function reasonWords(kind: string, message: string): string {
  return textIn(t().reasons, kind) ?? message;
}

/** The line below a failed answer. If its text is the reason already, that is not repeated. */
export function failureWords({ error, notice }: Metadata, text: string): string {
  const words = t().transcript;
  if (text !== '' && (error ? error.message === text : notice)) return words.failed;
  if (error) return words.failedBecause(reasonWords(error.kind, error.message));
  return text === '' ? words.failed : words.failedEarly;
}

/** The text of a message. What the server wrote in place of an answer is in the page's language if it has words for it. */
export function plainText({ notice, error, finish }: Metadata, text: string): string {
  if (!notice || (error && error.message !== text)) return text;
  return reasonWords(error?.kind ?? finish ?? '', text);
}

/** The line below an answer that ended too early; empty if it did not, or says so itself. */
export function cutWords({ notice, finish = '' }: Metadata): string {
  return notice ? '' : (textIn(t().transcript.cut, finish) ?? '');
}
