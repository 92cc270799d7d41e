import { asNumber, asObjects, asText, type Json } from '../base/json';
import { w } from '../words/charts';
import { formatNumber, frame, short, tooltip, type Option } from './frame';
import { countries } from './iso3166';
import { scaleColors, type Look } from './look';
import { usStates } from './usstates';

export type MapName = 'world' | 'usa-states' | 'usa-counties';

/** A region of the data with its id on the map. */
export interface Region {
  code: string;
  name: string;
  value: number;
  /** The map's own id; undefined if the map has no such region. */
  id?: string;
}

export interface Geography {
  /** null: there is no free map of this kind, a ranking is shown. */
  map: MapName | null;
  regions: Region[];
}

const maps: Record<string, MapName> = { world: 'world', 'usa-states': 'usa-states', 'usa-counties': 'usa-counties' };

const plain = (text: string) =>
  text
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, ' ')
    .trim();

const worldIds = new Map<string, string>();
const worldNames = new Map<string, string>();
const stateIds = new Map<string, string>();

function fillIndexes(): void {
  if (worldIds.size > 0) return;
  const english = typeof Intl.DisplayNames === 'function' ? new Intl.DisplayNames('en', { type: 'region' }) : undefined;
  for (const { alpha2, alpha3, numeric } of countries) {
    for (const code of [alpha2, alpha3, numeric, String(Number(numeric))]) worldIds.set(code, numeric);
    const name = english?.of(alpha2);
    if (name) worldNames.set(plain(name), numeric);
  }
  const alias: Record<string, string> = {
    usa: '840',
    'united states of america': '840',
    uk: '826',
    'great britain': '826',
    'ivory coast': '384',
    'czech republic': '203',
    turkey: '792',
    burma: '104',
    'south korea': '410',
    'north korea': '408',
    'democratic republic of the congo': '180',
    'republic of the congo': '178',
    'russian federation': '643',
    kosovo: 'Kosovo',
  };
  for (const [name, id] of Object.entries(alias)) worldNames.set(name, id);
  worldIds.set('XK', 'Kosovo').set('XKX', 'Kosovo').set('UK', '826');
  for (const { fips, postal, name } of usStates) {
    for (const key of [fips, String(Number(fips)), postal.toLowerCase(), plain(name)]) stateIds.set(key, fips);
  }
}

function idOf(map: MapName, code: string, name: string): string | undefined {
  fillIndexes();
  const clean = code.trim();
  if (map === 'world') return worldIds.get(clean.toUpperCase()) ?? worldNames.get(plain(name)) ?? worldNames.get(plain(clean));
  if (map === 'usa-states') {
    const postal = plain(clean.replace(/^US-/i, ''));
    return stateIds.get(postal) ?? stateIds.get(plain(name));
  }
  return /^\d{4,5}$/.test(clean) ? clean.padStart(5, '0') : undefined;
}

/** Finds the map and its regions for the data. */
export function geographyOf(data: Json): Geography {
  const map = maps[asText(data.geoType, 'world')] ?? null;
  const regions = asObjects(data.data).map((row) => {
    const code = asText(row.regionCode);
    const name = asText(row.regionName, code);
    return { code, name, value: asNumber(row.value, 0), id: map ? idOf(map, code, name) : undefined };
  });
  return { map, regions };
}

export function geoOption(data: Json, look: Look): Option {
  const { map, regions } = geographyOf(data);
  return map ? mapOption(map, regions, data, look) : rankingOption(regions, look);
}

function mapOption(map: MapName, regions: Region[], data: Json, look: Look): Option {
  const values = regions.map((region) => region.value);
  const names = new Map(regions.map((region) => [region.id, region.name]));
  return frame(look, {
    tooltip: tooltip(look, 'item', {
      formatter: (p: { name: string; value?: number }) =>
        names.has(p.name) ? `${names.get(p.name)}\n${formatNumber(p.value)}` : '',
    }),
    visualMap: {
      type: 'continuous',
      left: 0,
      bottom: 0,
      orient: 'horizontal',
      itemWidth: 10,
      itemHeight: 90,
      min: Math.min(...values, 0),
      max: Math.max(...values, Math.min(...values, 0) + 1e-9),
      text: [formatNumber(Math.max(...values, 0)), formatNumber(Math.min(...values, 0))],
      textStyle: { color: look.muted },
      inRange: { color: scaleColors(asText(data.colorScale, 'blues'), look) },
    },
    series: [
      {
        type: 'map',
        map,
        // The map's regions carry their id as name, so that the data finds them.
        nameProperty: 'id',
        roam: false,
        selectedMode: false,
        top: 4,
        left: 4,
        right: 4,
        bottom: 34,
        label: { show: false },
        itemStyle: { areaColor: look.empty, borderColor: look.surface, borderWidth: map === 'usa-counties' ? 0.2 : 0.6 },
        emphasis: { label: { show: false }, itemStyle: { areaColor: look.series[2] } },
        data: regions.flatMap(({ id, value }) => (id ? [{ name: id, value }] : [])),
      },
    ],
  });
}

const rankedRegions = 20;

function rankingOption(regions: Region[], look: Look): Option {
  const ranked = [...regions].sort((a, b) => b.value - a.value).slice(0, rankedRegions);
  return frame(look, {
    tooltip: tooltip(look, 'item'),
    grid: { left: 6, right: 24, top: 6, bottom: 6, outerBoundsMode: 'same', outerBoundsContain: 'axisLabel' },
    xAxis: { type: 'value', splitLine: { lineStyle: { color: look.line } }, axisLabel: { color: look.muted } },
    yAxis: {
      type: 'category',
      inverse: true,
      data: ranked.map((region) => short(region.name)),
      axisTick: { show: false },
      axisLine: { show: false },
      axisLabel: { color: look.text },
    },
    series: [
      {
        type: 'bar',
        barMaxWidth: 18,
        itemStyle: { borderRadius: [0, 4, 4, 0] },
        data: ranked.map((region) => region.value),
      },
    ],
  });
}

/** What the picture cannot show, in words; empty when it shows everything. */
export function geographyNote(data: Json): string {
  const { map, regions } = geographyOf(data);
  if (!map) return w().noMap;
  const lost = regions.filter((region) => !region.id).map((region) => region.name);
  return lost.length > 0 ? w().notOnMap(`${lost.slice(0, 10).join(', ')}${lost.length > 10 ? ' …' : ''}`) : '';
}
