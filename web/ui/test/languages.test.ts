import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { differences } from '../languages';
import de from '../src/words/de.json';
import en from '../src/words/en.json';
import { languages } from '../src/words/language.svelte';
import { textIn, textsOf } from '../src/words/texts';

const files: Record<string, object> = { en, de };

/** Every text by its path; of what is filled in, examples. */
function all(value: unknown, path = ''): [string, string][] {
  if (typeof value === 'string') return [[path, value]];
  if (typeof value === 'function') return [1, 5].flatMap((n) => all((value as (...args: unknown[]) => unknown)(n, n, n), `${path} ${n}`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => all(inner, path === '' ? key : `${path}.${key}`));
}

it('has a file for each language', () => {
  const names = readdirSync(new URL('../src/words/', import.meta.url)).filter((name) => name.endsWith('.json'));
  expect([names.toSorted(), Object.keys(files).toSorted()]).toEqual([Object.keys(languages).map((tag) => `${tag}.json`).toSorted(), Object.keys(languages).toSorted()]);
});

it.each(Object.keys(languages))('has all texts in %s, each with all that is filled in', (tag) => {
  expect(differences(en, files[tag])).toEqual([]);
  const texts = all(textsOf(files[tag], tag));
  expect(texts.filter(([, text]) => text.trim() === '' || /[{}]|undefined/.test(text))).toEqual([]);
});

it('notices a text that is missing, too many, or filled with something else', () => {
  const english = { a: 'A', b: { 'c(n)': '{n}', d: null }, e: ['x'] };
  expect(differences(english, { a: 'A', b: { 'c(n)': '{n}', d: 'D' }, e: ['y'] })).toEqual([]);
  expect(differences(english, { a: 'A', b: { 'c(m)': '{m}' }, e: ['x', 'y'], f: '' })).toEqual(['b.c(n)', 'b.d', 'b.c(m)', 'e.1', 'f']);
});

it('has German words for what is English', () => {
  const same = new Set(['page.transcript.system', 'page.app', 'page.simulatorChip', 'charts.fields.name', 'charts.fields.regionName', 'charts.fields.minValue', 'charts.fields.maxValue']);
  const german = new Map(all(de));
  expect(all(en).filter(([path, text]) => german.get(path) === text && /[a-z]{4}/i.test(text.replace(/\{\w+\}/g, '')) && !same.has(path))).toEqual([['page.version(v)', 'Version {v}']]);
});

it('fills in by the forms of a language', () => {
  const file = { 'n(n, what)': '{n, plural, =0 {no {what}} one {one {what}} few {{n} few} other {{n} {what}s}}', 'x(x)': '{x, select, a-b {A} other {{x}?}}', list: ['{n}'], none: null };
  const [english, polish] = [textsOf(file, 'en'), textsOf(file, 'pl')];
  expect([0, 1, 2, 5].map((n) => [english.n(n, 'dog'), polish.n(n, 'dog')])).toEqual([['no dog', 'no dog'], ['one dog', 'one dog'], ['2 dogs', '2 few'], ['5 dogs', '5 dogs']]);
  expect([english.x('a-b'), english.x('{n}'), english.list, english.none]).toEqual(['A', '{n}?', ['{n}'], null]);
  expect([textIn({ a: 'A', b: null }, 'a'), textIn({ b: null }, 'b'), textIn({}, 'constructor')]).toEqual(['A', undefined, undefined]);
});
