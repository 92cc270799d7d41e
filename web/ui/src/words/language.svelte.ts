import { de } from './de';
import { en, type Words } from './en';

/** A language of the page. */
export type Tag = 'en' | 'de';

/** The languages with the names that they give themselves. */
export const languages: Record<Tag, string> = { en: 'English', de: 'Deutsch' };

const dictionaries: Record<Tag, Words> = { en, de };
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
  current = $state.raw<Tag>(bestOf([...chosen(), ...(globalThis.document ? navigator.languages : [])]));

  choose(tag: Tag): void {
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
  return dictionaries[language.current];
}

/** The locale for dates and numbers: the browser's own where it is of the page's language. */
export function locale(): string {
  const own = globalThis.document ? navigator.languages : [];
  return own.find((tag) => bestOf([tag]) === language.current && tag.toLowerCase().startsWith(language.current)) ?? language.current;
}
