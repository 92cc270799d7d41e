import { readFileSync } from 'node:fs';
import { init } from 'echarts/core';
import { describe, expect, it } from 'vitest';
import { tableOfChart } from '../src/charts/data';
import { geographyNote, geographyOf } from '../src/charts/geo';
import { banOf, tableOf } from '../src/charts/html';
import { lookOf, safeColor } from '../src/charts/look';
import { loadMap, projected } from '../src/charts/maps';
import { chartOption } from '../src/charts/option';
import { chartKinds, readChart, type Chart } from '../src/charts/output';
import de from '../src/words/de.json';
import en from '../src/words/en.json';
import { textsOf } from '../src/words/texts';

const outputs = JSON.parse(readFileSync('test/fixtures/charts.json', 'utf8')) as unknown[];
const charts = outputs.map((output) => readChart(output) as Chart);
const drawnCharts = charts.filter((chart) => chart.kind !== 'ban' && chart.kind !== 'table');
const byKind = (kind: string) => charts.find((chart) => chart.kind === kind) as Chart;

await loadMap('world');

// The page's own colours, as app.css writes them.
const css = readFileSync(new URL('../src/app.css', import.meta.url), 'utf8');
const colors = (place: 1 | 2) => (name: string) => new RegExp(`--${name}: light-dark\\((#\\w+), (#\\w+)\\)`).exec(css)?.[place] ?? 'missing';
const lightLook = lookOf(false, colors(1));
const darkLook = lookOf(true, colors(2));

function svgOf(chart: Chart, look = lightLook): string {
  let option = chartOption(chart, look);
  if (!option) return '';
  if (chart.kind === 'geographic') option = projected('world', option);
  const instance = init(null, null, { renderer: 'svg', ssr: true, width: 600, height: 320 });
  instance.setOption({ ...option, animation: false });
  const svg = instance.renderToSVGString();
  instance.dispose();
  return svg;
}

/** Walks an option and returns every string that ECharts could read as markup or a template. */
function formatters(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(formatters);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'formatter' && typeof inner === 'string' ? [inner] : formatters(inner),
  );
}

describe('the sixteen kinds', () => {
  it('are all among the fixtures', () => {
    expect(charts.map((chart) => chart.kind).sort()).toEqual([...chartKinds].sort());
  });

  it.each(drawnCharts.map(({ kind }) => kind))('%s has a name in each language', (kind) => {
    for (const { label } of [textsOf(en.charts, 'en'), textsOf(de.charts, 'de')]) expect(label(kind, 'Sales')).not.toBe(label('', 'Sales'));
  });

  it.each(charts.map((chart) => [chart.kind, chart] as const))('%s has a title and a picture', (kind, chart) => {
    expect(chart.title).not.toBe('');
    if (kind === 'ban' || kind === 'table') return expect(chartOption(chart, lightLook)).toBeNull();
    for (const look of [lightLook, darkLook]) {
      const svg = svgOf(chart, look);
      expect(svg).toMatch(/^<svg /);
      expect(svg.match(/<(path|text|circle)/g)?.length).toBeGreaterThan(5);
      expect(svg).not.toContain('NaN');
    }
  });

  it.each(charts.map((chart) => [chart.kind, chart] as const))('%s survives data of every wrong form', (_, chart) => {
    for (const data of [{}, { data: null }, { data: 'x' }, { data: [1, null, {}] }, { data: [{ series: 'x', value: 'y' }] }]) {
      const broken = { ...chart, data };
      expect(() => svgOf(broken)).not.toThrow();
      expect(() => [banOf(data), tableOf(data)]).not.toThrow();
    }
  });
});

describe('what a model wrote', () => {
  const evil = '<img src=x onerror=alert(1)>{a|{b}}';

  it.each(drawnCharts.map((chart) => [chart.kind, chart] as const))('never becomes a formatter or markup in %s', (_, chart) => {
    const poisoned = JSON.parse(JSON.stringify(chart.data), (key, value: unknown) =>
      typeof value === 'string' && !['date', 'startDate', 'endDate', 'geoType', 'gaugeType', 'areaType', 'id', 'source', 'target', 'chartType'].includes(key)
        ? evil
        : value,
    ) as Chart['data'];
    const option = chartOption({ ...chart, data: poisoned }, lightLook);
    expect(option).not.toBeNull();
    expect(formatters(option).filter((text) => text.includes('onerror'))).toEqual([]);
    expect((option?.tooltip as { renderMode?: string } | undefined)?.renderMode ?? 'richText').toBe('richText');
    expect(svgOf({ ...chart, data: poisoned })).not.toContain('<img');
  });

  it('gives no colour but a plain one', () => {
    expect(safeColor('#a1B2c3', 'x')).toBe('#a1B2c3');
    expect(safeColor('url(#x)', 'x')).toBe('x');
    expect(safeColor(5, 'x')).toBe('x');
  });
});

describe('readChart', () => {
  it('leaves what is too much to draw as data, and draws no more series than can be told apart', () => {
    const output = (points: number) => ({
      chartType: 'bar',
      chartData: { data: Array.from({ length: points }, (_, i) => ({ xAxisLabel: `${i}`, series: [{ seriesName: `s${i}`, value: i }] })) },
    });
    expect(readChart(output(5001))).toBeNull();
    const chart = readChart(output(1000)) as Chart;
    expect((chartOption(chart, lightLook) as { series: unknown[] }).series).toHaveLength(200);
    expect(tableOfChart(chart)?.columns).toHaveLength(200);
    expect(tableOf({ columns: Array.from({ length: 1000 }, (_, i) => ({ key: `${i}` })), data: [{}] }).columns).toHaveLength(200);
  });

  it('keeps the names of series in a table', () => {
    const chart = readChart({ chartType: 'bar', chartData: { data: [{ xAxisLabel: 'Q1', series: [{ seriesName: 'iPhone', value: 1 }, { seriesName: '2024', value: 2 }] }] } }) as Chart;
    expect(tableOfChart(chart)?.columns.map(({ label }) => label)).toEqual(['Category', 'iPhone', '2024']);
  });

  it.each([
    ['bar', ['Mon', '18', '12', '3']],
    ['scatter', ['Flat 0', 'Outskirts', '55', '1,121', '2']],
    ['sankey', ['Sun', 'Battery', '5']],
    ['gauge', ['68', '%', '0', '100']],
    ['treemap', ['Photos', '120', '70', '50']],
  ])('gives all that %s draws as a table', (kind, row) => {
    expect(tableOfChart(byKind(kind))?.rows[0]?.slice(0, row.length)).toEqual(row);
  });

  it.each([
    null,
    'text',
    {},
    { chartType: 'bar' },
    { chartType: 'pyramid', chartData: {} },
    { chartType: 'bar', chartData: [] },
    { status: 'loading', chartType: 'bar', chartData: {} },
    { status: 'error', chartType: 'bar', chartData: {} },
  ])('refuses %j', (output) => {
    expect(readChart(output)).toBeNull();
  });
});

describe('single kinds', () => {
  const series = (kind: string) => chartOption(byKind(kind), lightLook)?.series as Record<string, unknown>[];

  it('area in percent adds up to 100', () => {
    const columns = series('area').map((one) => one.data as number[]);
    const sums = columns[0]?.map((_, at) => columns.reduce((sum, column) => sum + (column[at] ?? 0), 0));
    expect(sums?.map(Math.round)).toEqual([100, 100, 100, 100, 100]);
  });

  it('composed keeps the form of each series', () => {
    expect(series('composed').map((one) => [one.type, 'areaStyle' in one])).toEqual([
      ['bar', false],
      ['line', false],
      ['line', true],
    ]);
  });

  it('funnel goes from much to little and takes a given colour', () => {
    const data = series('funnel')[0]?.data as { value: number; itemStyle: { color: string } }[];
    expect(data.map((row) => row.value)).toEqual([5200, 2900, 1100, 480]);
    expect(data[2]?.itemStyle.color).toBe('#d08a2e');
  });

  it('gauge colours run from each threshold to the next', () => {
    const axis = series('gauge')[0]?.axisLine as { lineStyle: { color: [number, string][] } };
    expect(axis.lineStyle.color).toEqual([
      [0.25, '#c0392b'],
      [0.6, '#d9a441'],
      [1, '#2f7d6b'],
    ]);
  });

  it('radial bars are shares of their own maximum', () => {
    const data = series('radial-bar')[0]?.data as { value: number }[];
    expect(data.map((row) => Math.round(row.value))).toEqual([82, 50, 83, 33]);
  });

  it('sankey keeps only links between known nodes', () => {
    const chart = byKind('sankey');
    const links = [...(chart.data.links as object[]), { source: 's', target: 'nowhere', value: 1 }, { source: 's', target: 's', value: 1 }];
    const option = chartOption({ ...chart, data: { ...chart.data, links } }, lightLook);
    expect((option?.series as { links: object[] }[])[0]?.links).toHaveLength(5);
  });

  it('finds countries by any code and by name, and says what it cannot find', () => {
    const data = byKind('geographic').data;
    const found = Object.fromEntries(geographyOf(data).regions.map((region) => [region.name, region.id]));
    expect(found).toMatchObject({ 'United States': '840', Germany: '276', Brazil: '076', India: '356' });
    expect(geographyNote(data)).toBe('Not on the map: Atlantis');
  });

  it.each([
    ['usa-states', 'CA', 'California', '06'],
    ['usa-states', 'US-NY', 'New York', '36'],
    ['usa-states', '48', 'Texas', '48'],
    ['usa-states', '6', 'California', '06'],
    ['usa-counties', '6037', 'Los Angeles', '06037'],
    ['world', 'x', "Côte d'Ivoire", '384'],
    ['world', '4', 'Afghanistan', '004'],
  ])('finds %s %s', (geoType, regionCode, regionName, id) => {
    expect(geographyOf({ geoType, data: [{ regionCode, regionName, value: 1 }] }).regions[0]?.id).toBe(id);
  });

  it('ranks regions that have no map', () => {
    const data = { geoType: 'usa-dma', data: [{ regionCode: '501', regionName: 'New York', value: 3 }] };
    expect(geographyOf(data).map).toBeNull();
    expect(geographyNote(data)).toContain('ranked');
    const option = chartOption({ kind: 'geographic', title: 'x', description: '', data }, lightLook);
    expect((option?.series as { type: string }[])[0]?.type).toBe('bar');
  });

  it('the big number has its unit, trend and comparison', () => {
    expect(banOf(byKind('ban').data)).toEqual({
      value: '1,284 orders',
      trend: { direction: 'up', text: '12.5 % more than yesterday' },
      comparison: 'Yesterday: 1,141 orders',
    });
    expect(banOf({ value: 5, unit: '$' }).value).toBe('$5');
  });

  it('the table formats by type and leaves holes empty', () => {
    const table = tableOf(byKind('table').data);
    expect(table.columns.map((column) => column.label)).toEqual(['Station', 'Height (m)', 'Open', 'Since']);
    expect(table.rows).toEqual([
      ['Arth', '510', 'Yes', '1875-06-04'],
      ['Rigi Kulm', '1,752', 'Yes', '1873-06-27'],
      ['Old halt', '980', 'No', ''],
    ]);
  });
});
