import { afterEach, expect, it, vi } from 'vitest';
import { listReports } from '../src/api/reports';
import { factsOf } from '../src/view/thread/facts';

afterEach(() => void vi.unstubAllGlobals());

it('what was found in a call is read line by line', () => {
  const found = {
    first_name: 'Ann',
    partySize: 2,
    vegetarian: false,
    remarks: ' ',
    dishes: ['soup', 'bread'],
    none: [],
    address: { city: 'Bonn', zip: null },
    guests: [{ name: 'Bo' }, { name: 'Cy' }],
  };
  expect(factsOf(found).map(({ name, value }) => `${name}: ${value}`)).toEqual([
    'First name: Ann',
    'Party size: 2',
    'Vegetarian: false',
    'Remarks: null',
    'Dishes: soup, bread',
    'None: null',
    'Address · City: Bonn',
    'Address · Zip: null',
    'Guests · 1 · Name: Bo',
    'Guests · 2 · Name: Cy',
  ]);
  expect([factsOf(undefined), factsOf([1]), factsOf('x')]).toEqual([[], [], []]);
});

it('what is endless or deep has an end', () => {
  let deep: unknown = 1;
  for (let i = 0; i < 50; i++) deep = { a: deep };
  expect(factsOf(deep)).toHaveLength(1);
  expect(factsOf({ list: Array.from({ length: 10_000 }, (_, n) => ({ n })) })).toHaveLength(200);
});

it('reports are found by their call, whatever the server leaves out', async () => {
  const none = { number: '', reason: '', durationMs: 0, cost: null };
  const calls = [{ call_id: 'a', caller: '+4930', end_reason: 'idle', ready_at: '2026-01-01T00:00:01Z', ended_at: '2026-01-01T00:00:15Z', cost_usd: 0.25 }, { call_id: 'b', extraction: 'done', summary: 'S', extracted: { n: 1 } }, { call_id: 'c', extraction: 'failed', extraction_error: 'why', extracted: [] }, 7];
  vi.stubGlobal('document', { baseURI: 'http://server/' });
  vi.stubGlobal('fetch', async () => new Response(JSON.stringify({ calls })));
  const reports = await listReports('t');
  expect(reports.get('a')).toEqual({ state: '', error: '', summary: '', extracted: {}, number: '+4930', reason: 'idle', durationMs: 14_000, cost: 0.25 });
  expect(reports.get('b')).toEqual({ state: 'done', error: '', summary: 'S', extracted: { n: 1 }, ...none });
  expect(reports.get('c')).toEqual({ state: 'failed', error: 'why', summary: '', extracted: {}, ...none });
});
