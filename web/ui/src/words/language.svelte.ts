import { words as english } from './catalogue/page?en';

/** Every text that the page begins with. */
export type Words = typeof import('./catalogue/page').words;

const en: Words = english;

/** A language of the page. */
export type Tag = 'en' | 'de';

/** The languages with the names that they give themselves. */
export const languages: Record<Tag, string> = { en: 'English', de: 'Deutsch' };

const dictionaries: Partial<Record<Tag, Words>> = { en };
const others = { de: () => import('./catalogue/page?de').then(({ words }) => words as Words) };

/** Loads the words of a language; false if that failed. */
export async function loadWords(tag: Tag): Promise<boolean> {
  if (tag === 'en' || dictionaries[tag]) return true;
  return others[tag]().then(
    (words) => (dictionaries[tag] = words) !== undefined,
    () => false,
  );
}
const key = 'voicebridge-language';

/** The first language of a list that the page supports; English if there is none. */
export function bestOf(wanted: readonly string[]): Tag {
  for (const tag of wanted) {
    const base = tag.toLowerCase().split('-')[0];
    if (base === 'en' || base === 'de') return base;
  }
  return 'en';
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

/** The words of a part of the page, in its current language. */
export const inLanguage = <Part>(english: Part, german: Part) => (): Part => (language.current === 'de' ? german : english);

/** The locale for dates and numbers: the browser's own where it is of the page's language. */
export function locale(): string {
  const own = globalThis.document ? navigator.languages : [];
  return own.find((tag) => bestOf([tag]) === language.current && tag.toLowerCase().startsWith(language.current)) ?? language.current;
}
