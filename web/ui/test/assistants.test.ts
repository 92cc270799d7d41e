import { expect, it } from 'vitest';
import { cleaned, mergePatch } from '../src/api/assistants';

it('a form leaves out what is empty, but an empty list means none', () => {
  expect(cleaned({ name: 'A', greeting: '', voice: { model: '', speed: undefined }, tools: { allow: [], deny: undefined }, limits: { max_minutes: 0 } })).toEqual({
    name: 'A',
    tools: { allow: [] },
    limits: { max_minutes: 0 },
  });
});

it('a merge patch says only what has changed, and removes what is gone', () => {
  const before = { name: 'A', greeting: 'Hi', voice: { model: 'm', voice: 'cedar' }, tools: { allow: ['a'] }, variables: { shop: 'x' } };
  expect(mergePatch(before, before)).toEqual({});
  expect(mergePatch(before, { name: 'B', voice: { voice: 'ash' }, tools: { allow: [] }, variables: { shop: 'x' }, shared: true })).toEqual({
    name: 'B',
    greeting: null,
    voice: { model: null, voice: 'ash' },
    tools: { allow: [] },
    shared: true,
  });
});
