import { expect, it } from 'vitest';
import { words as de } from '../src/words/catalogue/page?de';
import { words as en } from '../src/words/catalogue/page?en';
import { words as chartsDe } from '../src/words/catalogue/charts?de';
import { words as charts } from '../src/words/catalogue/charts?en';
import { words as endingDe } from '../src/words/catalogue/ending?de';
import { words as ending } from '../src/words/catalogue/ending?en';
import { words as productDe } from '../src/words/catalogue/product?de';
import { words as product } from '../src/words/catalogue/product?en';
import { words as sightDe } from '../src/words/catalogue/sight?de';
import { words as sight } from '../src/words/catalogue/sight?en';

// What is the same in both languages.
const same = new Set(['version', 'transcript.system', 'app', 'simulatorChip', 'charts.fields.name', 'charts.fields.regionName', 'charts.fields.minValue', 'charts.fields.maxValue']);

/** Every text by its path; of what is made of values, an example. */
function textsOf(value: unknown, path = ''): [string, string][] {
  if (typeof value === 'string') return [[path, value]];
  if (typeof value === 'function') return textsOf((value as (...args: unknown[]) => unknown)('1', '2', '3'), path);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => textsOf(inner, path === '' ? key : `${path}.${key}`));
}

it('the German is complete', () => {
  const [english, german] = [new Map(textsOf({ ...en, charts, product, sight, ending })), new Map(textsOf({ ...de, charts: chartsDe, product: productDe, sight: sightDe, ending: endingDe }))];
  // The server's own words are English already where the page has none for them.
  const missing = [...english.keys()].filter((path) => !german.has(path));
  expect(missing).toEqual([]);
  const untranslated = [...english].filter(([path, text]) => german.get(path) === text && /[a-z]{4}/i.test(text) && !same.has(path)).map(([path, text]) => `${path}: ${text}`);
  expect(untranslated).toEqual([]);
  expect([...german].filter(([, text]) => text.trim() === '').map(([path]) => path)).toEqual([]);
});
