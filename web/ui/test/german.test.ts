import { expect, it } from 'vitest';
import { de } from '../src/words/de';
import { en } from '../src/words/en';
import * as charts from '../src/words/charts';
import * as product from '../src/words/product';
import * as sight from '../src/words/sight';

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
  const [english, german] = [new Map(textsOf({ ...en, charts: charts.en, product: product.en, sight: sight.en })), new Map(textsOf({ ...de, charts: charts.de, product: product.de, sight: sight.de }))];
  // The server's own words are English already where the page has none for them.
  const missing = [...english.keys()].filter((path) => !german.has(path));
  expect(missing).toEqual([]);
  const untranslated = [...english].filter(([path, text]) => german.get(path) === text && /[a-z]{4}/i.test(text) && !same.has(path)).map(([path, text]) => `${path}: ${text}`);
  expect(untranslated).toEqual([]);
  expect([...german].filter(([, text]) => text.trim() === '').map(([path]) => path)).toEqual([]);
});
