import { expect, it } from 'vitest';
import { hasRows, ofRows } from '../src/view/side/FormRows.svelte';
import { cleaned, mergePatch, modelsOf, voices } from '../src/api/assistants';

it('a form leaves out what is empty, but an empty list means none', () => {
  expect(cleaned({ name: 'A', greeting: '', voice: { model: '', speed: undefined }, tools: { allow: [], deny: undefined }, limits: { max_minutes: 0 }, http_tools: [{}, { name: 'a', url: '' }] })).toEqual({
    name: 'A',
    tools: { allow: [] },
    limits: { max_minutes: 0 },
    http_tools: [{ name: 'a' }],
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

it('what answers is the assistant’s, else the server’s', () => {
  const none = { voices: [], cascade: false, listens: '', ofAssistant: false };
  const models = [
    { ...none, provider: 'openai', model: 'm', kind: 'realtime', voice: 'marin', isDefault: true },
    { ...none, provider: 'grok', model: 'g', kind: 'realtime', voice: 'eve', isDefault: false },
    { ...none, provider: 'own', model: 't', kind: 'realtime', voice: 'slt', voices: ['slt', 'awb'], cascade: true, listens: 'whisper', ofAssistant: true, isDefault: false },
    { ...none, provider: 'openai', model: 't', kind: 'text', voice: '', isDefault: true },
    { ...none, provider: 'ollama', model: 'o', kind: 'text', voice: '', isDefault: false },
  ];
  const of = (fields: object, upstream = '') => {
    const { service, model, voice, text } = modelsOf({ id: 'a', name: 'A', ...fields }, models, upstream);
    return [service, model, voice, text].join(', ');
  };
  expect(modelsOf(undefined, models)).toMatchObject({ service: 'openai', model: 'm', voice: 'marin', text: 'openai · t', cascade: false, voices });
  expect(modelsOf({ voice: { upstream: 'own' } }, models)).toMatchObject({ cascade: true, listens: 'whisper', voices: ['slt', 'awb'] });
  expect(of({ text: { provider: 'ollama' } }, 'own')).toBe('own, o, slt, ollama · o');
  expect(of({ voice: { upstream: 'grok' }, text: { provider: 'ollama' } })).toBe('grok, g, eve, ollama · o');
  expect(of({ voice: { upstream: 'grok', model: 'g2', voice: 'ara' }, text: { provider: 'ollama', model: 'o2' } })).toBe('grok, g2, ara, ollama · o2');
  expect(of({ voice: { voice: 'ash' }, text: { model: 't2' } })).toBe('openai, m, ash, openai · t2');
  // What it names for one service is not another's.
  expect(of({ voice: { upstream: 'grok', model: 'g2', voice: 'ara' } }, 'own')).toBe('own, t, slt, openai · t');
  // What it names is gone from the settings.
  expect(of({ voice: { upstream: 'gone', model: 'x' }, text: { provider: 'gone', model: 'x' } })).toBe('openai, x, marin, openai · t');
  expect(modelsOf(undefined, [])).toMatchObject({ service: '', model: '', voice: '', text: '' });
});

it('rows say a JSON schema, or leave it to whoever wrote more', () => {
  const schema = { type: 'object', properties: { name: { type: 'string', description: 'Whose' }, count: { type: 'integer' } }, required: ['count', 'gone'] };
  expect([hasRows(undefined), hasRows(schema)]).toEqual([true, true]);
  for (const more of [{ oneOf: [] }, { properties: { list: { type: 'array', items: {} } } }, { properties: { a: { type: 'string', enum: ['x'] } } }, 7]) expect([more, hasRows(more)]).toEqual([more, false]);
  const more = { number: '+4930123456' };
  const rows = [{ name: ' count ', kind: 'integer', text: '', more }, { name: '', kind: 'string', text: 'nobody’s', more }, { name: 'day', kind: 'string', text: 'When', more }];
  expect(ofRows(rows, false, {}, ['number', 'says'])).toEqual({ count: more, day: more });
  expect(ofRows(rows, true, schema)).toEqual({ type: 'object', properties: { count: { type: 'integer' }, day: { type: 'string', description: 'When' } }, required: ['count'] });
  expect([ofRows(rows, false, {}), ofRows([], true, schema)]).toEqual([{ count: '', day: 'When' }, undefined]);
});
