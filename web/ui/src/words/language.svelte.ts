import type english from './en.json';
import { textsOf, type Texts } from './texts';

/** The languages with the names that they give themselves. Each has a file of its texts, with the keys of the English one. */
export const languages = { en: 'English', de: 'Deutsch' };

/** A language of the page. */
export type Tag = keyof typeof languages;

/** The texts of a language, by the part of the page that they are loaded with. */
type File = typeof english;

/** Every text that the page begins with. */
export type Words = Texts<File['page']>;

/** The words that say what a call is doing. */
export type Word = keyof Words['states'];

const first = import.meta.glob<File['page']>('./en.json', { query: '?page', import: 'default', eager: true });
const others = import.meta.glob<File['page']>(['./*.json', '!./en.json'], { query: '?page', import: 'default' });
const fileOf = (tag: Tag) => `./${tag}.json`;
const en = textsOf(Object.values(first)[0]!, 'en');
const dictionaries: Partial<Record<Tag, Words>> = { en };

/** Loads the words of a language; false if that failed. */
export async function loadWords(tag: Tag): Promise<boolean> {
  if (dictionaries[tag]) return true;
  const words = await others[fileOf(tag)]?.().catch(() => undefined);
  if (words) dictionaries[tag] = textsOf(words, tag);
  return words !== undefined;
}

const key = 'voicebridge-language';

/** The first language of a list that the page supports; English if there is none. */
export function bestOf(wanted: readonly string[]): Tag {
  const bases = wanted.map((tag) => tag.toLowerCase().split('-')[0] ?? '');
  return (bases.find((base) => Object.hasOwn(languages, base)) ?? 'en') as Tag;
}

function chosen(): string[] {
  try {
    return [localStorage.getItem(key) ?? ''];
  } catch {
    return []; // Storage may be forbidden, and in tests there is none.
  }
}

class Language {
  current = $state.raw<Tag>('en');

  /** Speaks the language that the user or the browser wants, or English if its words do not come. */
  async begin(): Promise<void> {
    const wanted = bestOf([...chosen(), ...(globalThis.document ? navigator.languages : [])]);
    if (await loadWords(wanted)) this.current = wanted;
  }

  async choose(tag: Tag): Promise<void> {
    if (!(await loadWords(tag))) return;
    this.current = tag;
    try {
      localStorage.setItem(key, tag);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }
}

export const language = new Language();

/** The words of the page in its current language. */
export function t(): Words {
  return dictionaries[language.current] ?? en;
}

/** The words of a part of the page, in its current language, from the files of all languages. */
export function inLanguage<Part extends keyof File>(files: Record<string, unknown>): () => Texts<File[Part]> {
  const ready: Partial<Record<Tag, Texts<File[Part]>>> = {};
  return () => (ready[language.current] ??= textsOf(files[fileOf(language.current)] as File[Part], language.current));
}

/** The locale for dates and numbers: the browser's own where it is of the page's language. */
export function locale(): string {
  const own = globalThis.document ? navigator.languages : [];
  return own.find((tag) => bestOf([tag]) === language.current && tag.toLowerCase().startsWith(language.current)) ?? language.current;
}
